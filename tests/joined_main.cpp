// The main of a folder's joined tests: of a program test_FOLDER_NAME only the tests in FOLDER/NAME_test.cpp run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fnmatch.h>
#include <string>
#include <string_view>

namespace {

// Whether gtest's filter chooses the test of this full name: patterns with ':' between them, after '-' those to leave
// out.
bool chosen(const std::string& filter, const std::string& name) {
  const auto matches = [&](const std::string& patterns) {
    for (std::size_t at = 0; at <= patterns.size();) {
      const auto end = std::min(patterns.find(':', at), patterns.size());
      if (::fnmatch(patterns.substr(at, end - at).c_str(), name.c_str(), 0) == 0) return true;
      at = end + 1;
    }
    return false;
  };
  const auto minus = filter.find('-');
  if (minus == std::string::npos) return matches(filter);
  return (minus == 0 || matches(filter.substr(0, minus))) && !matches(filter.substr(minus + 1));
}

// The full names of the tests in the file that the filter chooses, as a filter; false if the file has no test.
bool choose_of_file(const std::string& file) {
  auto& filter = ::testing::GTEST_FLAG(filter);
  const auto& all = *::testing::UnitTest::GetInstance();
  std::string names;
  bool found = false;
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const auto& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const auto& test = *suite.GetTestInfo(t);
      if (!std::string_view(test.file()).ends_with(file)) continue;
      found = true;
      const auto name = std::string(suite.name()) + "." + test.name();
      if (chosen(filter, name)) names += (names.empty() ? "" : ":") + name;
    }
  }
  filter = names.empty() ? "-*" : names;
  return found;
}

}  // namespace

// argv[0] is the name by which joined_start.c started this program: test_FOLDER_NAME. All tests run as test_FOLDER.
int main(int argc, char** argv) {
  const std::string path = argv[0], program = path.substr(path.rfind('/') + 1);
  ::testing::InitGoogleTest(&argc, argv);
  const auto folder = program.find('_') + 1, name = program.find('_', folder) + 1;
  if (name != 0) {
    const auto file = "/" + program.substr(folder, name - 1 - folder) + "/" + program.substr(name) + "_test.cpp";
    if (!choose_of_file(file)) {
      std::fprintf(stderr, "%s: no test is in %s\n", program.c_str(), file.c_str() + 1);
      return 1;
    }
  }
  return RUN_ALL_TESTS();
}
