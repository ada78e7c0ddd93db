// SPDX-License-Identifier: Apache-2.0
// More than 2^31 elements in one operation.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "unit/collectives/sanitizers.h"
#include "unit/collectives/world.h"

namespace hvd::test {
namespace {

size_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  size_t kilobytes = 0;
  std::string unit;
  while (file >> name >> kilobytes >> unit) {
    if (name == "MemAvailable:") return kilobytes * 1024;
  }
  return 0;
}

TEST(Large, MoreElementsThanFitInt32) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need several times the memory";
  const size_t count = (size_t{1} << 31) + 4099;
  const size_t needed = 2 * count + (size_t{2} << 30);
  if (available_memory() < needed) {
    GTEST_SKIP() << "needs " << (needed >> 20) << " MiB of free memory, there are "
                 << (available_memory() >> 20);
  }
  World world = World::on_one_host(2);
  world.run([&](int member) {
    std::vector<uint8_t> values(count);
    for (size_t i = 0; i < count; i += 4096)
      values[i] = static_cast<uint8_t>(i / 4096 + static_cast<size_t>(member));
    values[count - 1] = 7;
    const collectives::Item item{.in = values.data(), .out = values.data(), .count = count};
    const collectives::Work work{
        .kind = collectives::Kind::kAllreduce, .dtype = DType::kUint8, .items = {&item, 1}};
    finish(collectives::start(world.state(member), work));
    for (size_t i = 0; i < count - 1; i += 4096)
      ASSERT_EQ(values[i], static_cast<uint8_t>(2 * (i / 4096) + 1)) << i;
    ASSERT_EQ(values[count - 1], 14);
    ASSERT_EQ(values[count - 2], 0);
  });
}

}  // namespace
}  // namespace hvd::test
