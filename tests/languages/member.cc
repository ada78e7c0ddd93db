// SPDX-License-Identifier: Apache-2.0
// The C++ rank of a job whose ranks are of several languages: the same operations as member.py,
// which explains them.
#include <hvd/hvd.hpp>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace {

using Rows = std::vector<std::int64_t>;

// The checksum of zlib and PNG, continued from `before`.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t before = 0) {
  std::uint32_t rest = ~before;
  for (const std::byte byte : bytes) {
    rest ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ (rest % 2 != 0 ? 0xedb88320U : 0U);
  }
  return ~rest;
}

template <class T>
std::uint32_t checksum(const T& data, std::uint32_t before = 0) {
  return crc32(std::as_bytes(std::span(data)), before);
}

class Member {
 public:
  void run() {
    for (const auto& [label, operation] : operations_) show(label, operation(label));
    set_of_even_ranks();
    out_of_order();
    for (const std::size_t index : {0, 1, 2, 7, 10}) {
      const auto& [label, operation] = operations_[index];
      show("again-" + label, operation(label));
    }
    if (const char* victim = std::getenv("HVD_TEST_DIE")) die(std::atoi(victim));
    std::printf("rank=%d done\n", job_.rank());
  }

 private:
  void show(const std::string& label, std::uint32_t checksum) const {
    std::printf("rank=%d %s %08x\n", job_.rank(), label.c_str(), checksum);
    std::fflush(stdout);
  }

  // This rank's input.
  template <class T>
  std::vector<T> values(std::int64_t count, T divisor = 1) const {
    std::vector<T> all;
    for (std::int64_t i = 0; i < count; ++i)
      all.push_back(static_cast<T>(((job_.rank() + 1) * 7 + i * 3) % 251) / divisor);
    return all;
  }

  template <class T>
  std::uint32_t allreduce(std::vector<T> data, const hvd::OpOptions& options) {
    job_.allreduce(data, options).wait();
    return checksum(data);
  }

  std::uint32_t product(const std::string& name) {
    std::vector<float> factors;
    for (int i = 0; i < 5; ++i) factors.push_back(static_cast<float>(1 + (job_.rank() + i) % 3));
    return allreduce(factors, {.name = name, .reduce_op = hvd::ReduceOp::kProduct});
  }

  std::uint32_t grouped(const std::string& name) {
    std::vector<float> a = values<float>(1), b = values<float>(10), c = values<float>(100);
    job_.grouped_allreduce(std::vector<hvd::AnyTensor>{a, b, c}, {.name = name}).wait();
    return checksum(c, checksum(b, checksum(a)));
  }

  std::uint32_t allgather(const std::string& name) {
    const std::vector<float> mine = values<float>(3 * (job_.rank() + 1));
    hvd::Pending gathered =
        job_.allgather(hvd::Tensor(std::span(mine), {job_.rank() + 1, 3}), {.name = name});
    gathered.wait();
    return checksum(gathered.result<float>().data);
  }

  std::uint32_t broadcast(const std::string& name) {
    std::vector<std::uint8_t> data = values<std::uint8_t>(4096);
    job_.broadcast(data, 1, {.name = name}).wait();
    return checksum(data);
  }

  std::uint32_t alltoall(const std::string& name) {
    Rows splits;
    std::int64_t rows = 0;
    for (int j = 0; j < job_.size(); ++j) rows += splits.emplace_back((job_.rank() + j) % 3);
    const std::vector<int> mine = values<int>(rows);
    hvd::Pending received =
        job_.alltoall(hvd::Tensor(std::span(mine), {rows, 1}), splits, {.name = name});
    received.wait();
    return checksum(received.result<int>().data);
  }

  std::uint32_t reducescatter(const std::string& name) {
    const std::int64_t rows = 2 * job_.size() + 1;
    const std::vector<float> mine = values<float>(2 * rows);
    hvd::Pending part = job_.reducescatter(hvd::Tensor(std::span(mine), {rows, 2}), {.name = name});
    part.wait();
    return checksum(part.result<float>().data);
  }

  std::uint32_t barrier(const std::string& name) {
    job_.barrier({.name = name}).wait();
    return 0;
  }

  void set_of_even_ranks() {
    std::vector<std::int32_t> ranks;
    for (int rank = 0; rank < job_.size(); rank += 2) ranks.push_back(rank);
    hvd::ProcessSet even = job_.create_process_set(ranks);
    const std::string label = "set-allreduce-f64";
    if (even.included()) show(label, allreduce(values<double>(100), {.name = label, .set = &even}));
    even.destroy();
  }

  void out_of_order() {
    std::array<std::vector<float>, 2> data = {values<float>(10), values<float>(10)};
    const std::array<std::string, 2> labels = {"async-a", "async-b"};
    std::array<hvd::Pending, 2> pending;
    const std::size_t first = job_.rank() % 2 != 0 ? 1 : 0;
    for (const std::size_t i : {first, 1 - first})
      pending[i] = job_.allreduce(data[i], {.name = labels[i]});
    for (const std::size_t i : {0, 1}) {
      pending[i].wait();
      show(labels[i], checksum(data[i]));
    }
  }

  void die(int victim) {
    try {
      barrier("before-death");
      if (job_.rank() == victim) std::raise(SIGKILL);
      allreduce(values<float>(10), {.name = "after-death"});
    } catch (const hvd::Exception& error) {
      std::printf("rank=%d error %s\n", job_.rank(), error.what());
      std::fflush(stdout);
    }
  }

  using Operation = std::function<std::uint32_t(const std::string& name)>;
  hvd::Context job_;
  // In this order, because every rank waits for one before it begins the next.
  std::vector<std::pair<std::string, Operation>> operations_ = {
      {"allreduce-f32-sum",
       [this](auto& name) { return allreduce(values<float>(1000, 8), {.name = name}); }},
      {"allreduce-f64-avg",
       [this](auto& name) {
         return allreduce(values<double>(257, 3),
                          {.name = name, .reduce_op = hvd::ReduceOp::kAverage});
       }},
      {"allreduce-i64-max",
       [this](auto& name) {
         return allreduce(values<std::int64_t>(33),
                          {.name = name, .reduce_op = hvd::ReduceOp::kMax});
       }},
      {"allreduce-i32-min",
       [this](auto& name) {
         return allreduce(values<int>(33), {.name = name, .reduce_op = hvd::ReduceOp::kMin});
       }},
      {"allreduce-f32-product", [this](auto& name) { return product(name); }},
      {"allreduce-f32-scaled",
       [this](auto& name) {
         return allreduce(values<float>(64), {.name = name, .prescale = 0.5, .postscale = 3.0});
       }},
      {"grouped", [this](auto& name) { return grouped(name); }},
      {"allgather-f32", [this](auto& name) { return allgather(name); }},
      {"broadcast-u8", [this](auto& name) { return broadcast(name); }},
      {"alltoall-i32", [this](auto& name) { return alltoall(name); }},
      {"reducescatter-f32", [this](auto& name) { return reducescatter(name); }},
      {"barrier", [this](auto& name) { return barrier(name); }},
  };
};

}  // namespace

int main() { Member().run(); }
