// Tables of sizes are aligned in both forms, and rounding does not hide a difference.
#include "libtrain/engine/size_table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace trainyard {
namespace {

TEST(SizeTable, ShowsEqualityAndEveryByte) {
  const engine::SizeTable table{"memory",
                                "predicted",
                                {{"optimizer", 50566912, 50566912, ""},
                                 {"workspace", 50566912, 50566976, ""},
                                 {"outside (reserve)", 436207616, 23277056, "within"}}};
  const auto rounded = table.text(base::Sizes::rounded), exact = table.text();
  EXPECT_EQ(rounded,
            "memory                             predicted        measured  difference\n"
            "optimizer                            50.6 MB         50.6 MB           0\n"
            "workspace                            50.6 MB         50.6 MB       +64 B\n"
            "outside (reserve)                     436 MB         23.3 MB      within\n");
  EXPECT_NE(exact.find("memory (bytes) "), std::string::npos);
  EXPECT_NE(exact.find("optimizer                           50566912        50566912           0\n"), std::string::npos)
      << exact;
  EXPECT_NE(exact.find("workspace                           50566912        50566976          64\n"), std::string::npos)
      << exact;
  std::istringstream in(exact);
  for (std::string line; std::getline(in, line);) EXPECT_EQ(line.size(), rounded.find('\n')) << line;
}

TEST(SizeTable, OfNothingIsNothing) { EXPECT_EQ((engine::SizeTable{"traffic sent", "announced", {}}.text()), ""); }

}  // namespace
}  // namespace trainyard
