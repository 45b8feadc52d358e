// A profile for people and for other programs' tables.
#pragma once

#include "libtrain/base/number_text.h"
#include "libtrain/plan/profile.h"
#include "libtrain/plan/profile_compare.h"
#include "tools/common/terminal.h"

#include <string>

namespace trainyard::tools {

// The columns of nccl-tests for every series (size, count, type, time, algbw, busbw, #wrong) with how sure the time is,
// its tail and the slowest rank; the fit below; then the local ceilings.
std::string profile_table(const plan::Profile& profile, base::Sizes sizes);
std::string fit_text(const plan::LinkFit& fit, base::Sizes sizes);  // "3.2 us + bytes / 1.9 GB/s from 0 B; ..."
// One line a size with everything but the repeats, then one line a local ceiling, under a heading each; quoted where
// needed (RFC 4180).
std::string profile_csv(const plan::Profile& profile);
// What is slower, how the fits of the first predict the second, and what is missing.
std::string comparison_text(const plan::ProfileComparison& comparison, double most);

// Bus bandwidth over size in characters, for each series: o measured, - the fit, shade between the ends of its 90 %
// interval; ascii leaves out what is not ASCII.
std::string profile_charts(const plan::Profile& profile, int columns, Glyphs glyphs);

// The same as a drawing: a panel a series, bytes and GB/s on logarithmic scales, medians with their 95 % intervals, the
// fit, and the 90 % interval of a repeat.
std::string profile_svg(const plan::Profile& profile);

}  // namespace trainyard::tools
