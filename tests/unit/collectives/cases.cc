// SPDX-License-Identifier: Apache-2.0
#include "unit/collectives/cases.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "unit/collectives/values.h"

namespace hvd::test {

namespace {

using collectives::Item;
using collectives::LaneState;
using collectives::Work;

constexpr DType kTypes[] = {DType::kUint8,   DType::kInt8,  DType::kUint16,  DType::kInt16,
                            DType::kInt32,   DType::kInt64, DType::kFloat16, DType::kFloat32,
                            DType::kFloat64, DType::kBool,  DType::kBfloat16};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
constexpr const char* kKindNames[] = {
#define HVD_KIND(enumerator, name) #name,
#include "collectives/kind.def"
};
constexpr std::byte kUntouched{0xa5};

uint64_t key(const Case& test, int member, size_t item) {
  return test.seed * 1000003 + static_cast<uint64_t>(member) * 10007 + item;
}

size_t sum(const std::vector<size_t>& values, size_t end) {
  size_t total = 0;
  for (size_t i = 0; i < end; ++i) total += values[i];
  return total;
}

std::string compare(const Case& test, size_t item, const std::byte* got, const Bytes& want) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (got[i] != want[i]) {
      return test.describe() + ": item " + std::to_string(item) + " byte " + std::to_string(i) +
             " of " + std::to_string(want.size()) + ": got " +
             std::to_string(static_cast<int>(got[i])) + ", want " +
             std::to_string(static_cast<int>(want[i]));
    }
  }
  return {};
}

Bytes expected(const Case& test, const Place& place, size_t item, size_t count) {
  std::vector<Bytes> inputs;
  for (size_t m = 0; m < place.host_of.size(); ++m) {
    inputs.push_back(test.joined[m]
                         ? Bytes{}
                         : random_values(test.dtype, count, key(test, static_cast<int>(m), item)));
  }
  if (place.by_hosts) {
    return reduced_by_hosts(test.dtype, test.op, inputs, place.host_of, count, test.prescale,
                            test.postscale);
  }
  return reduced(test.dtype, test.op, inputs, count, test.prescale, test.postscale);
}

Work reduction(const Case& test, std::span<const Item> items) {
  return {.kind = test.kind,
          .dtype = test.dtype,
          .op = test.op,
          .prescale = test.prescale,
          .postscale = test.postscale,
          .items = items};
}

std::string run_allreduce(const Case& test, const Place& place, LaneState& state,
                          const Runner& runner) {
  const bool joined = test.joined[static_cast<size_t>(place.member)];
  std::vector<Bytes> ins;
  std::vector<Bytes> outs;
  for (size_t i = 0; i < test.counts.size(); ++i) {
    ins.push_back(random_values(test.dtype, test.counts[i], key(test, place.member, i)));
    outs.emplace_back(ins.back().size(), kUntouched);
  }
  std::vector<Item> items;
  for (size_t i = 0; i < ins.size(); ++i) {
    std::byte* out = joined ? nullptr : test.in_place ? ins[i].data() : outs[i].data();
    items.push_back({.in = joined ? nullptr : ins[i].data(), .out = out, .count = test.counts[i]});
  }
  const Work work = reduction(test, items);
  runner(collectives::start(state, work));
  for (size_t i = 0; i < ins.size() && !joined; ++i) {
    const Bytes& got = test.in_place ? ins[i] : outs[i];
    std::string wrong = compare(test, i, got.data(), expected(test, place, i, test.counts[i]));
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string run_reducescatter(const Case& test, const Place& place, LaneState& state,
                              const Runner& runner) {
  const size_t me = static_cast<size_t>(place.member);
  const size_t element = dtype_size(test.dtype);
  std::vector<Bytes> ins;
  std::vector<Bytes> outs;
  std::vector<std::byte*> results;
  for (size_t i = 0; i < test.shares.size(); ++i) {
    const std::vector<size_t>& counts = test.shares[i];
    ins.push_back(
        random_values(test.dtype, sum(counts, counts.size()), key(test, place.member, i)));
    outs.emplace_back(counts[me] * element, kUntouched);
    // both places allowed
    const size_t offset = test.seed % 2 == 0 ? 0 : sum(counts, me) * element;
    results.push_back(test.in_place ? ins[i].data() + offset : outs[i].data());
  }
  std::vector<Item> items;
  for (size_t i = 0; i < ins.size(); ++i) {
    const bool joined = test.joined[me];
    items.push_back({.in = joined ? nullptr : ins[i].data(),
                     .out = joined ? nullptr : results[i],
                     .parts = test.shares[i]});
  }
  const Work work = reduction(test, items);
  runner(collectives::start(state, work));
  for (size_t i = 0; i < ins.size() && !test.joined[me]; ++i) {
    const std::vector<size_t>& counts = test.shares[i];
    const Bytes all = expected(test, place, i, sum(counts, counts.size()));
    const std::byte* begin = all.data() + sum(counts, me) * element;
    std::string wrong = compare(test, i, results[i], Bytes(begin, begin + counts[me] * element));
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string run_allgather(const Case& test, const Place& place, LaneState& state,
                          const Runner& runner) {
  const size_t me = static_cast<size_t>(place.member);
  std::vector<Bytes> ins;
  std::vector<Bytes> outs;
  std::vector<Item> items;
  for (size_t i = 0; i < test.shares.size(); ++i) {
    const std::vector<size_t>& shares = test.shares[i];
    ins.push_back(random_bytes(shares[me], key(test, place.member, i)));
    outs.emplace_back(sum(shares, shares.size()), kUntouched);
    if (!test.in_place) continue;
    std::copy(ins[i].begin(), ins[i].end(),
              outs[i].begin() + static_cast<ptrdiff_t>(sum(shares, me)));
  }
  for (size_t i = 0; i < ins.size(); ++i) {
    const std::byte* in = test.in_place ? outs[i].data() + sum(test.shares[i], me) : ins[i].data();
    items.push_back({.in = in, .out = outs[i].data(), .parts = test.shares[i]});
  }
  const Work work{.kind = Kind::kAllgather, .items = items};
  runner(collectives::start(state, work));
  for (size_t i = 0; i < ins.size(); ++i) {
    Bytes want;
    for (size_t m = 0; m < place.host_of.size(); ++m) {
      const Bytes part = random_bytes(test.shares[i][m], key(test, static_cast<int>(m), i));
      want.insert(want.end(), part.begin(), part.end());
    }
    std::string wrong = compare(test, i, outs[i].data(), want);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string run_broadcast(const Case& test, const Place& place, LaneState& state,
                          const Runner& runner) {
  const bool root = place.member == test.root;
  const Bytes in = random_bytes(test.counts[0], key(test, test.root, 0));
  Bytes buffer = root && test.in_place ? in : Bytes(in.size(), kUntouched);
  const void* from = !root ? nullptr : test.in_place ? buffer.data() : in.data();
  const Item item{.in = from, .out = buffer.data(), .count = in.size()};
  const Work work{.kind = Kind::kBroadcast, .root_member = test.root, .items = {&item, 1}};
  runner(collectives::start(state, work));
  return compare(test, 0, buffer.data(), in);
}

std::string run_alltoall(const Case& test, const Place& place, LaneState& state,
                         const Runner& runner) {
  const size_t me = static_cast<size_t>(place.member);
  const std::vector<size_t>& sends = test.splits[me];
  std::vector<size_t> receives;
  Bytes want;
  for (size_t m = 0; m < sends.size(); ++m) {
    receives.push_back(test.splits[m][me]);
    const Bytes all =
        random_bytes(sum(test.splits[m], sends.size()), key(test, static_cast<int>(m), 0));
    const std::byte* begin = all.data() + sum(test.splits[m], me);
    want.insert(want.end(), begin, begin + receives.back());
  }
  const Bytes in = random_bytes(sum(sends, sends.size()), key(test, place.member, 0));
  Bytes out(want.size(), kUntouched);
  const Item item{.in = in.data(), .out = out.data()};
  const Work work{
      .kind = Kind::kAlltoall, .items = {&item, 1}, .send_bytes = sends, .receive_bytes = receives};
  runner(collectives::start(state, work));
  return compare(test, 0, out.data(), want);
}

class Chooser {
 public:
  Chooser(uint64_t seed, size_t largest) : random_(seed * 7919 + 17), largest_(largest) {}
  size_t below(size_t end) { return random_() % end; }
  bool one_in(size_t n) { return below(n) == 0; }
  // Zero, a few, hundreds, slot-sized or large, in bytes.
  size_t bytes() {
    const size_t limits[] = {1, 8, 100, 1000, 5000, 70000, 300000, 300000, 1200000};
    return below(std::min(limits[below(one_in(8) ? 9 : 6)], largest_) + 1);
  }
  std::vector<size_t> sizes(size_t n, size_t divisor) {
    std::vector<size_t> result;
    const bool equal = one_in(3);
    for (size_t i = 0; i < n; ++i)
      result.push_back(equal && i > 0 ? result[0] : one_in(4) ? 0 : bytes() / divisor);
    return result;
  }

 private:
  std::mt19937_64 random_;
  size_t largest_;
};

}  // namespace

std::string Case::describe() const {
  return std::string(kKindNames[static_cast<int>(kind)]) + " seed " + std::to_string(seed) + " " +
         dtype_name(dtype) + " " + reduce_op_name(op) + " scales " + std::to_string(prescale) +
         " " + std::to_string(postscale) + (in_place ? " in place" : "") + " items " +
         std::to_string(std::max(counts.size(), shares.size()));
}

Case random_case(uint64_t seed, int members, size_t largest) {
  const size_t n = static_cast<size_t>(members);
  Chooser choose(seed, largest);
  Case test;
  test.seed = seed;
  test.kind = static_cast<Kind>(choose.one_in(2) ? 0 : choose.below(std::size(kKindNames)));
  test.dtype = kTypes[choose.below(std::size(kTypes))];
  test.op = kOps[choose.below(std::size(kOps))];
  if (choose.one_in(4)) test.prescale = 0.5;
  if (choose.one_in(4)) test.postscale = 1.0 / 3;
  test.in_place = choose.one_in(2);
  test.root = static_cast<int>(choose.below(n));
  test.joined.resize(n);
  for (size_t m = 0; m < n && choose.one_in(5); ++m) test.joined[m] = choose.one_in(2);
  const size_t items = choose.one_in(3) ? 1 + choose.below(choose.one_in(8) ? 400 : 12) : 1;
  const size_t element = dtype_size(test.dtype);
  for (size_t i = 0; i < items; ++i) {
    const size_t shrink = items > 20 ? 50 : 1;
    test.counts.push_back(choose.bytes() / element / shrink);
    test.shares.push_back(
        choose.sizes(n, n * (test.kind == Kind::kReducescatter ? element : 1) * shrink));
  }
  for (size_t m = 0; m < n; ++m) test.splits.push_back(choose.sizes(n, choose.one_in(3) ? 1 : n));
  return test;
}

std::string run_case(const Case& test, const Place& place, LaneState& state, const Runner& runner) {
  switch (test.kind) {
    case Kind::kAllreduce: return run_allreduce(test, place, state, runner);
    case Kind::kAllgather: return run_allgather(test, place, state, runner);
    case Kind::kBroadcast: return run_broadcast(test, place, state, runner);
    case Kind::kAlltoall: return run_alltoall(test, place, state, runner);
    case Kind::kReducescatter: return run_reducescatter(test, place, state, runner);
  }
  return "no such kind";
}

}  // namespace hvd::test
