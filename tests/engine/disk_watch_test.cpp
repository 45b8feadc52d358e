// How long steps were blocked on the disk, and the line about the rates that they reached.
#include "libtrain/engine/disk_watch.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace trainyard {
namespace disk_watch_test {

TEST(DiskWatch, CountsInStepsAlone) {
  double blocked = 5;  // such as loading
  engine::DiskWatch watch([&] { return blocked; });
  watch.begin_step();
  blocked += 0.5;
  EXPECT_DOUBLE_EQ(watch.end_step(), 0.5);
  watch.add(2);
  blocked += 10;  // a validation
  watch.begin_step();
  blocked += 0.25;
  watch.begin_step();  // before the first of them has ended
  blocked += 1;
  EXPECT_DOUBLE_EQ(watch.end_step(), 1.25);
  watch.add(3);
  blocked += 0.75;
  EXPECT_DOUBLE_EQ(watch.end_step(), 0.75);
  watch.add(5);
  blocked += 10;
  // 0.5 + 1.25 + 0.75 of 2 + 3 + 5 seconds.
  EXPECT_EQ(watch.text({.read = 40'000'000, .written = 25'000'000}),
            "disk: 40.0 MB read and 25.0 MB written in steps (4.00 MB/s and 2.50 MB/s); steps were blocked 2.5 s of "
            "10 s");
  EXPECT_THROW(watch.end_step(), std::logic_error);
}

TEST(DiskWatch, NothingWithoutADiskOrAStep) {
  engine::DiskWatch none({});
  none.begin_step();
  EXPECT_EQ(none.end_step(), -1);
  none.add(1);
  EXPECT_EQ(none.text({1, 1}), "");
  engine::DiskWatch fresh([] { return 0.0; });
  EXPECT_EQ(fresh.text({1, 1}), "");
}

}  // namespace disk_watch_test
}  // namespace trainyard
