// SPDX-License-Identifier: Apache-2.0
// reduce() in every instruction set over every element type, operator, number of sources, length,
// alignment, aliasing and scale. The scalar kernels are held against reference.cc, the others bit
// by bit against the scalar kernels.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "arena.h"
#include "reference.h"

namespace hvd::kernels::test {
namespace {

constexpr size_t kMaxSources = 9;
constexpr size_t kSeparate = kMaxSources;  // a destination that is no source
constexpr double kScales[] = {1.0,
                              1.0 / 3,
                              -0.75,
                              1e30,
                              0.0,
                              std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity(),
                              0.5};

// One call: elements [first, first + count) of the sources, and where everything lies.
struct Placement {
  size_t first = 0, count = 0;
  size_t dst = kSeparate;   // a source's index, or kSeparate
  size_t dst2 = kSeparate;  // the same
  bool has_dst2 = false;
  bool non_temporal = false;
  std::array<size_t, kMaxSources + 2> at{};  // for Slot::place: sources, dst, dst2
};

// Sources and, per scale, what reducing them must give.
class Problem {
 public:
  Problem(Isa isa, DType dtype, ReduceOp op, size_t nsrc, size_t count, Random& random)
      : isa_(isa), dtype_(dtype), op_(op) {
    for (size_t k = 0; k < nsrc; ++k) sources_.push_back(random_elements(dtype, count, random));
  }

  const std::vector<Bytes>& sources() const { return sources_; }
  ReduceArgs args(double scale) const {
    ReduceArgs args;
    args.dtype = dtype_;
    args.op = op_;
    args.nsrc = sources_.size();
    args.postscale = scale;
    return args;
  }
  size_t element() const { return dtype_size(dtype_); }
  Isa isa() const { return isa_; }

  const Bytes& expected(size_t scale) {
    Bytes& result = expected_[scale];
    if (result.empty())
      result = isa_ == Isa::kScalar ? by_reference(kScales[scale]) : by_scalar(kScales[scale]);
    return result;
  }

 private:
  Bytes by_reference(double scale) const { return expected_reduce(dtype_, op_, sources_, scale); }
  Bytes by_scalar(double scale) const {
    Bytes result(sources_[0].size());
    std::vector<const void*> srcs;
    for (const Bytes& source : sources_) srcs.push_back(source.data());
    ReduceArgs call = args(scale);
    call.dst = result.data();
    call.srcs = srcs.data();
    call.count = result.size() / element();
    table(Isa::kScalar).reduce(call);
    return result;
  }

  Isa isa_;
  DType dtype_;
  ReduceOp op_;
  std::vector<Bytes> sources_;
  std::map<size_t, Bytes> expected_;
};

using Slots = std::array<Slot, kMaxSources + 2>;

// Makes one call and says what went wrong; "" if nothing did.
std::string run(Problem& problem, Slots& slots, const Placement& where, size_t scale) {
  const size_t nsrc = problem.sources().size();
  const size_t skip = where.first * problem.element(), size = where.count * problem.element();
  std::array<const void*, kMaxSources> srcs{};
  std::array<unsigned char*, kMaxSources> places{};
  for (size_t k = 0; k < nsrc; ++k) {
    srcs[k] = places[k] = slots[k].place(problem.sources()[k].data() + skip, size, where.at[k]);
  }
  const auto place_dst = [&](size_t which, size_t slot) {
    return which == kSeparate ? slots[slot].place(size, where.at[slot]) : places[which];
  };
  ReduceArgs args = problem.args(kScales[scale]);
  args.srcs = srcs.data();
  args.count = where.count;
  args.non_temporal = where.non_temporal;
  args.dst = place_dst(where.dst, kMaxSources);
  if (where.has_dst2) args.dst2 = place_dst(where.dst2, kMaxSources + 1);
  table(problem.isa()).reduce(args);

  const unsigned char* expected = problem.expected(scale).data() + skip;
  const size_t dst_slot = where.dst == kSeparate ? kMaxSources : where.dst;
  const size_t dst2_slot = where.dst2 == kSeparate ? kMaxSources + 1 : where.dst2;
  if (!slots[dst_slot].holds(expected)) return "wrong result in dst";
  if (!slots[dst_slot].surroundings_untouched()) return "wrote outside dst";
  if (where.has_dst2 && !slots[dst2_slot].holds(expected)) return "wrong result in dst2";
  if (where.has_dst2 && !slots[dst2_slot].surroundings_untouched()) return "wrote outside dst2";
  for (size_t k = 0; k < nsrc; ++k) {
    if (k == where.dst || (where.has_dst2 && k == where.dst2)) continue;
    if (!slots[k].holds(problem.sources()[k].data() + skip))
      return "changed source " + std::to_string(k);
  }
  return "";
}

std::string describe(const Placement& where, size_t nsrc, double scale) {
  std::string text =
      "sources " + std::to_string(nsrc) + ", count " + std::to_string(where.count) +
      " from element " + std::to_string(where.first) + ", dst " + std::to_string(where.dst) +
      ", dst2 " + (where.has_dst2 ? std::to_string(where.dst2) : "none") + ", scale " +
      std::to_string(scale) + (where.non_temporal ? ", non-temporal" : "") + ", placed at";
  for (const size_t at : where.at) text += " " + std::to_string(at);
  return text;
}

Placement random_placement(size_t nsrc, size_t count, Random& random) {
  Placement where;
  where.first = random.below(64);
  where.count = count;
  where.dst = random.below(2) ? kSeparate : random.below(nsrc);
  where.has_dst2 = random.below(2) != 0;
  where.dst2 = random.below(2) ? kSeparate : random.below(nsrc);
  if (where.dst2 == where.dst) where.dst2 = kSeparate;
  where.non_temporal = random.below(2) != 0;
  const bool aligned = random.below(4) == 0;
  for (size_t& at : where.at) at = aligned ? 0 : random.below(80);
  return where;
}

class ReduceSweep : public ::testing::TestWithParam<std::tuple<Isa, DType>> {
 protected:
  void SetUp() override {
    if (!isa_supported(isa()))
      GTEST_SKIP() << "this processor or build has no " << label(isa()) << " kernels";
  }
  Isa isa() const { return std::get<0>(GetParam()); }
  DType dtype() const { return std::get<1>(GetParam()); }

  void check(Problem& problem, const Placement& where, size_t scale) {
    const std::string wrong = run(problem, slots_, where, scale);
    if (wrong.empty()) return;
    const ReduceArgs args = problem.args(kScales[scale]);
    FAIL() << wrong << ": " << reduce_op_name(args.op) << ", "
           << describe(where, args.nsrc, args.postscale);
  }

  // Calls body(problem) for every operator and number of sources.
  template <class Body>
  void for_each_problem(size_t count, uint64_t seed, Body body) {
    Random random(seed);
    for (const ReduceOp op : kOps) {
      for (size_t nsrc = 1; nsrc <= kMaxSources; ++nsrc) {
        Problem problem(isa(), dtype(), op, nsrc, count, random);
        body(problem, nsrc, random);
        if (HasFatalFailure()) return;
      }
    }
  }

 private:
  Slots slots_;
};

TEST_P(ReduceSweep, EveryLengthUpTo300) {
  for_each_problem(364, 1, [&](Problem& problem, size_t nsrc, Random& random) {
    for (size_t count = 0; count <= 300 && !HasFatalFailure(); ++count) {
      const size_t scale = random.below(2) ? 0 : random.below(std::size(kScales));
      check(problem, random_placement(nsrc, count, random), scale);
    }
  });
}

TEST_P(ReduceSweep, LongLengths) {
  for_each_problem(5100, 2, [&](Problem& problem, size_t nsrc, Random& random) {
    for (const size_t count : {511, 1024, 2049, 4096, 5003}) {
      check(problem, random_placement(nsrc, count, random), random.below(std::size(kScales)));
      if (HasFatalFailure()) return;
    }
  });
}

TEST_P(ReduceSweep, EveryInPlacePosition) {
  for_each_problem(300, 3, [&](Problem& problem, size_t nsrc, Random& random) {
    for (size_t dst = 0; dst <= nsrc; ++dst) {
      for (size_t dst2 = 0; dst2 <= nsrc + 1; ++dst2) {
        Placement where = random_placement(nsrc, 200 + random.below(30), random);
        where.dst = dst == nsrc ? kSeparate : dst;
        where.has_dst2 = dst2 <= nsrc;
        where.dst2 = dst2 >= nsrc ? kSeparate : dst2;
        if (where.dst == where.dst2 && where.dst != kSeparate) continue;
        check(problem, where, random.below(2));
        if (HasFatalFailure()) return;
      }
    }
  });
}

TEST_P(ReduceSweep, EveryAlignment) {
  for (const size_t nsrc : {2, 3}) {
    Random random(4);
    Problem problem(isa(), dtype(), ReduceOp::kSum, nsrc, 300, random);
    for (size_t dst = 0; dst < 64; ++dst) {
      for (size_t source = 0; source < 64; ++source) {
        Placement where;
        where.count = 70 + random.below(200);
        where.has_dst2 = random.below(2) != 0;
        where.non_temporal = random.below(2) != 0;
        where.at.fill(random.below(64));
        where.at[0] = source;
        where.at[kMaxSources] = dst;
        check(problem, where, 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

std::string sweep_name(const ::testing::TestParamInfo<std::tuple<Isa, DType>>& info) {
  return std::string(label(std::get<0>(info.param))) + "_" + dtype_name(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(All, ReduceSweep,
                         ::testing::Combine(::testing::Values(Isa::kScalar, Isa::kAvx2,
                                                              Isa::kAvx512),
                                            ::testing::ValuesIn(kAllTypes)),
                         sweep_name);

}  // namespace
}  // namespace hvd::kernels::test
