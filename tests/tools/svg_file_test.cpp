// Drawings as files: which names are accepted, how a PNG is made, and what a drawing replaces.
#include "tools/common/svg_file.h"

#include "libtrain/base/error.h"
#include "tests/scratch.h"
#include "tools/common/svg_chart.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;
namespace fs = std::filesystem;

namespace {

const std::string image = "\x89PNG\r\n\x1a\n" + std::string(25, 'h') + "the rest";

// A PATH of one folder, with or without a converter, which is a script.
struct Files : ::testing::Test {
  Files() { ::setenv("PATH", bin.c_str(), 1); }
  ~Files() override { ::setenv("PATH", before.c_str(), 1); }
  void converter(const std::string& script) {
    fs::create_directories(bin);
    spit(bin + "/rsvg-convert", "#!/bin/sh\nPATH=/usr/local/bin:/usr/bin:/bin\n" + script + "\n");
    fs::permissions(bin + "/rsvg-convert", fs::perms::owner_all);
  }
  // A converter that returns `image` and keeps what it got.
  void good_converter() {
    spit(scratch.path + "/image", image);
    converter("cat >" + scratch.path + "/got; echo \"$@\" >" + scratch.path + "/words; cat " + scratch.path + "/image");
  }
  std::string refusal(const std::string& path) {
    try {
      tools::write_drawing(path, svg, {});
    } catch (const base::EnvironmentError& e) {
      return e.what();
    }
    return "";
  }
  Scratch scratch;
  std::string bin = scratch.path + "/bin", before = std::getenv("PATH"), png = scratch.path + "/x.png";
  std::string svg = tools::svg_drawing({}, "one", {});
};

}  // namespace

TEST_F(Files, NamesSayTheKind) {
  for (const char* name : {"-", "x.svg", "X.SVG", "folder.d/x", "/dev/stdout", ".svg"})
    EXPECT_NO_THROW(tools::require_drawing_name("--svg", name)) << name;
  for (const char* name : {"x.pdf", "x.png.gz", "x.svgz", "run.v2", "x.jpeg"}) try {
      tools::require_drawing_name("--svg", name);
      ADD_FAILURE() << name;
    } catch (const base::UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
  for (const char* name : {"x.png", "X.Png"}) try {
      tools::require_drawing_name("--svg", name);
      ADD_FAILURE() << name;
    } catch (const base::EnvironmentError& e) {
      EXPECT_NE(std::string(e.what()).find("rsvg-convert"), std::string::npos) << e.what();
      EXPECT_NE(e.hint().find("install librsvg2-bin"), std::string::npos) << e.hint();
    }
  fs::create_directories(bin + "/rsvg-convert");  // a folder is no program
  EXPECT_THROW(tools::require_drawing_name("--svg", "x.png"), base::EnvironmentError);
  fs::remove(bin + "/rsvg-convert");
  spit(bin + "/rsvg-convert", "x");  // nor is a file that nobody may run
  EXPECT_THROW(tools::require_drawing_name("--svg", "x.png"), base::EnvironmentError);
  good_converter();
  EXPECT_NO_THROW(tools::require_drawing_name("--svg", "x.png"));
  ::setenv("PATH", ("/nowhere::" + bin).c_str(), 1);
  EXPECT_NO_THROW(tools::require_drawing_name("--svg", "x.PNG"));
}

TEST_F(Files, APngIsWhatTheConverterMakes) {
  good_converter();
  tools::write_drawing(png, svg, {});
  EXPECT_EQ(slurp(scratch.path + "/got"), svg);
  EXPECT_EQ(slurp(scratch.path + "/words"), "--format=png --zoom=2\n");
  // A text chunk follows the first chunk; its checksum is zlib.crc32(b"tEXtSoftware\0Trainyard").
  const std::string chunk(
      "\0\0\0\x12tEXtSoftware\0Trainyard"
      "\xca\x22\x35\x4a",
      30);
  EXPECT_EQ(slurp(png), image.substr(0, 33) + chunk + image.substr(33));
  // More than a pipe holds, in both directions.
  tools::write_drawing(png, svg + std::string(1 << 20, ' '), {});
  converter("cat; head -c 1000000 /dev/zero");
  EXPECT_NE(refusal(png).find("made no PNG for " + png), std::string::npos) << refusal(png);
}

TEST_F(Files, AConverterThatFailsLeavesTheFileAsItWas) {
  good_converter();
  tools::write_drawing(png, svg, {});
  const auto whole = slurp(png);
  converter("echo 'no font' >&2; exit 3");
  EXPECT_NE(refusal(png).find("exit code 3, no font"), std::string::npos) << refusal(png);
  converter("cat " + scratch.path + "/image; exit 5");  // its output begins well
  EXPECT_NE(refusal(png).find("exit code 5"), std::string::npos) << refusal(png);
  converter("kill -9 $$");
  EXPECT_NE(refusal(png).find("exit code 137"), std::string::npos) << refusal(png);
  converter("exit 0");
  EXPECT_NE(refusal(png).find("exit code 0"), std::string::npos) << refusal(png);
  spit(bin + "/rsvg-convert", "#!/no/such/shell\n");
  EXPECT_NE(refusal(png).find("exit code 127"), std::string::npos) << refusal(png);
  fs::remove(bin + "/rsvg-convert");
  EXPECT_NE(refusal(png).find("no folder of PATH has it"), std::string::npos) << refusal(png);
  EXPECT_EQ(slurp(png), whole);
}

TEST_F(Files, OnlyDrawingsAreReplaced) {
  good_converter();
  const auto path = scratch.path + "/x.svg";
  tools::write_drawing(path, svg, {});
  tools::write_drawing(path, tools::svg_drawing({}, "two", {}), {});
  EXPECT_NE(slurp(path).find(">two<"), std::string::npos);
  spit(path, "<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>");
  EXPECT_THROW(tools::write_drawing(path, svg, {}), base::UsageError);
  EXPECT_THROW(tools::write_drawing(scratch.path, svg, {}), base::UsageError);
  spit(png, image);  // a file of another program
  EXPECT_THROW(tools::write_drawing(png, svg, {}), base::UsageError);
  EXPECT_EQ(slurp(png), image);
  spit(png, svg);  // earlier versions wrote this under the name
  tools::write_drawing(png, svg, {});
  tools::write_drawing(png, svg, {});
  EXPECT_TRUE(slurp(png).starts_with("\x89PNG"));
}
