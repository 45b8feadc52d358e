// A link profile as text: tables and charts for people, CSV for other programs.
#pragma once

#include "libtrain/base/number_text.h"
#include "libtrain/plan/links/profile.h"
#include "libtrain/plan/links/profile_compare.h"
#include "tools/common/terminal.h"

#include <string>

namespace trainyard::tools {

// A table for every series with the columns of nccl-tests (size, count, type, time, algbw, busbw, #wrong). It adds the
// confidence interval of the time, its tail and the slowest rank. The fit follows below, then the local ceilings.
std::string profile_table(const plan::Profile& profile, base::Sizes sizes);
std::string fit_text(const plan::LinkFit& fit, base::Sizes sizes);  // "3.2 us + bytes / 1.9 GB/s from 0 B; ..."
// CSV with one line for each size, with everything but the repeats. Then one line for each local ceiling. Each part has
// a heading. Values are quoted where needed (RFC 4180).
std::string profile_csv(const plan::Profile& profile);
// Text about what is slower, how the fits of the first profile predict the second, and what is missing.
std::string comparison_text(const plan::ProfileComparison& comparison, double most);

// Bus bandwidth over size, drawn with characters for each series: o is measured, - is the fit, and the 90 % interval is
// shaded. With Glyphs::ascii only ASCII characters are used.
std::string profile_charts(const plan::Profile& profile, int columns, Glyphs glyphs);

// The same as SVG: one panel for each series, bytes and GB/s on logarithmic scales. It shows medians with their 95 %
// intervals, the fit, and the 90 % interval of a repeat.
std::string profile_svg(const plan::Profile& profile);

}  // namespace trainyard::tools
