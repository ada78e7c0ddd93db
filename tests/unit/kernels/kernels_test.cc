// SPDX-License-Identifier: Apache-2.0
// Everything in reduce.h but the sweep over reduce(), which is sweep_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "arena.h"
#include "reference.h"

namespace hvd::kernels::test {
namespace {

constexpr Isa kIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<const void*> pointers(const std::vector<Bytes>& sources) {
  std::vector<const void*> result;
  for (const Bytes& source : sources) result.push_back(source.data());
  return result;
}

std::vector<Bytes> random_sources(DType dtype, size_t nsrc, size_t count, Random& random) {
  std::vector<Bytes> sources;
  for (size_t k = 0; k < nsrc; ++k) sources.push_back(random_elements(dtype, count, random));
  return sources;
}

Bytes reduced(const KernelTable& kernels, DType dtype, ReduceOp op,
              const std::vector<Bytes>& sources, double scale) {
  Bytes result(sources[0].size());
  const std::vector<const void*> srcs = pointers(sources);
  kernels.reduce({dtype, op, result.data(), nullptr, srcs.data(), srcs.size(),
                  result.size() / dtype_size(dtype), scale, false});
  return result;
}

template <class T>
Bytes bytes_of(std::initializer_list<T> values) {
  Bytes result(values.size() * sizeof(T));
  std::memcpy(result.data(), std::data(values), result.size());
  return result;
}

class Kernels : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_supported(GetParam()))
      GTEST_SKIP() << "this processor or build has no " << label(GetParam()) << " kernels";
  }
  const KernelTable& kernels() const { return table(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(All, Kernels, ::testing::ValuesIn(kIsas),
                         [](const ::testing::TestParamInfo<Isa>& info) {
                           return std::string(label(info.param));
                         });

TEST(DTypeTable, NumbersNamesAndSizesAreFixed) {
  struct Row {
    int32_t value;
    const char* name;
    size_t size;
  };
  const Row rows[] = {{0, "uint8", 1},           {1, "int8", 1},
                      {2, "uint16", 2},          {3, "int16", 2},
                      {4, "int32", 4},           {5, "int64", 8},
                      {6, "float16", 2},         {7, "float32", 4},
                      {8, "float64", 8},         {9, "bool", 1},
                      {10, "bfloat16", 2},       {11, "uint32", 4},
                      {12, "uint64", 8},         {13, "complex64", 8},
                      {14, "complex128", 16},    {15, "bytes", 1},
                      {16, "complex32", 4},      {17, "float8_e3m4", 1},
                      {18, "float8_e4m3", 1},    {19, "float8_e4m3b11fnuz", 1},
                      {20, "float8_e4m3fn", 1},  {21, "float8_e4m3fnuz", 1},
                      {22, "float8_e5m2", 1},    {23, "float8_e5m2fnuz", 1},
                      {24, "float8_e8m0fnu", 1}, {25, "float4_e2m1fn", 1},
                      {26, "int2", 1},           {27, "uint2", 1},
                      {28, "int4", 1},           {29, "uint4", 1}};
  for (const Row& row : rows) {
    EXPECT_TRUE(dtype_valid(row.value));
    EXPECT_STREQ(dtype_name(static_cast<DType>(row.value)), row.name);
    EXPECT_EQ(dtype_size(static_cast<DType>(row.value)), row.size);
    EXPECT_EQ(dtype_reducible(static_cast<DType>(row.value)), row.value < 15);
  }
  for (const int32_t value : {-1, 30, 1 << 30}) {
    EXPECT_FALSE(dtype_valid(value));
    EXPECT_STREQ(dtype_name(static_cast<DType>(value)), "invalid");
    EXPECT_EQ(dtype_size(static_cast<DType>(value)), 0u);
  }
}

TEST(DTypeTable, OperatorNames) {
  const char* names[] = {"average", "sum", "adasum", "min", "max", "product"};
  for (int32_t op = 0; op < 6; ++op)
    EXPECT_STREQ(reduce_op_name(static_cast<ReduceOp>(op)), names[op]);
  EXPECT_STREQ(reduce_op_name(static_cast<ReduceOp>(6)), "invalid");
}

TEST(Dispatch, TheBestSupportedInstructionSetIsTheDefault) {
  EXPECT_TRUE(isa_supported(Isa::kScalar));
  Isa best = Isa::kScalar;
  for (const Isa isa : kIsas) {
    if (isa_supported(isa)) best = isa;
    EXPECT_STREQ(table(isa).name, isa_supported(isa) ? label(isa) : "scalar");
  }
  EXPECT_STREQ(isa_name(), label(best));
}

TEST(Dispatch, ThePublicFunctionsUseIt) {
  Random random(11);
  const std::vector<Bytes> sources = random_sources(DType::kFloat32, 2, 100, random);
  const std::vector<const void*> srcs = pointers(sources);
  Bytes sum(400), half(400), mixed(400), non_temporal(400), copied(400);
  reduce(
      {DType::kFloat32, ReduceOp::kAverage, sum.data(), nullptr, srcs.data(), 2, 100, 0.5, false});
  EXPECT_EQ(sum, reduced(table(Isa::kScalar), DType::kFloat32, ReduceOp::kSum, sources, 0.5));
  scale(DType::kFloat32, half.data(), srcs[0], 100, 0.5);
  EXPECT_EQ(half,
            expected_reduce(DType::kFloat32, ReduceOp::kSum, std::span(sources).first(1), 0.5));
  const double weights[] = {2, 0.25};
  weighted_sum(DType::kFloat32, mixed.data(), nullptr, srcs.data(), weights, 2, 100, 1.0);
  EXPECT_EQ(mixed, expected_weighted_sum(DType::kFloat32, sources, weights, 1.0));
  const float three[] = {1, 2, 2};
  const void* const once[] = {three};
  double norm = 1;
  gram(DType::kFloat32, once, 1, 3, &norm);
  EXPECT_EQ(norm, 10);
  copy(copied.data(), srcs[1], 400);
  copy_non_temporal(non_temporal.data(), srcs[1], 400);
  EXPECT_EQ(copied, sources[1]);
  EXPECT_EQ(non_temporal, sources[1]);
}

TEST_P(Kernels, NothingIsTouchedWhenThereIsNothingToDo) {
  for (const DType dtype : kAllTypes) {
    for (const ReduceOp op : kOps)
      kernels().reduce({dtype, op, nullptr, nullptr, nullptr, 2, 0, 0.5, true});
    kernels().scale(dtype, nullptr, nullptr, 0, 0.5);
    kernels().weighted_sum(dtype, nullptr, nullptr, nullptr, nullptr, 2, 0, 1.0);
    kernels().gram(dtype, nullptr, 0, 0, nullptr);
    fill_identity(dtype, ReduceOp::kSum, nullptr, 0);
  }
  kernels().copy_non_temporal(nullptr, nullptr, 0);
  copy(nullptr, nullptr, 0);
}

TEST_P(Kernels, AdasumIsNotAReductionAndWritesNothing) {
  for (const DType dtype : kAllTypes) {
    Random random(12);
    const std::vector<Bytes> sources = random_sources(dtype, 2, 50, random);
    for (const double scale : {1.0, 0.5}) {
      EXPECT_EQ(reduced(kernels(), dtype, ReduceOp::kAdasum, sources, scale),
                Bytes(sources[0].size()));
    }
  }
}

TEST_P(Kernels, WrittenOutByHand) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto sum = [&](DType dtype, const Bytes& a, const Bytes& b, double scale) {
    return reduced(kernels(), dtype, ReduceOp::kSum, {a, b}, scale);
  };
  EXPECT_EQ(sum(DType::kUint8, {250, 3}, {10, 4}, 1.0), (Bytes{4, 7}));
  EXPECT_EQ(sum(DType::kUint8, {200, 3}, {50, 4}, 2.0), (Bytes{255, 14}));
  EXPECT_EQ(sum(DType::kInt32, bytes_of<int32_t>({-3, 7}), bytes_of<int32_t>({-4, 8}), 0.5),
            bytes_of<int32_t>({-3, 7}));
  EXPECT_EQ(sum(DType::kInt64, bytes_of<int64_t>({INT64_MAX}), bytes_of<int64_t>({0}), 2.0),
            bytes_of<int64_t>({INT64_MAX}));
  EXPECT_EQ(sum(DType::kInt64, bytes_of<int64_t>({INT64_MIN}), bytes_of<int64_t>({0}), 2.0),
            bytes_of<int64_t>({INT64_MIN}));
  EXPECT_EQ(sum(DType::kInt64, bytes_of<int64_t>({7}), bytes_of<int64_t>({0}), kNan),
            bytes_of<int64_t>({0}));
  EXPECT_EQ(sum(DType::kUint64, bytes_of<uint64_t>({UINT64_MAX}), bytes_of<uint64_t>({0}), 0.5),
            bytes_of<uint64_t>({UINT64_MAX / 2}));
  EXPECT_EQ(sum(DType::kUint32, bytes_of<uint32_t>({UINT32_MAX - 1, 7}), bytes_of<uint32_t>({1, 8}),
                1.0 / 3),
            bytes_of<uint32_t>({UINT32_MAX / 3, 5}));
  EXPECT_EQ(sum(DType::kBool, {0, 0, 7, 1}, {0, 9, 0, 1}, 0.5), (Bytes{0, 1, 1, 1}));
  // 2049 needs 12 bits: adding 1 twice in float16 would stay at 2048.
  const std::vector<Bytes> halves = {bytes_of<uint16_t>({0x6800}), bytes_of<uint16_t>({0x3c00}),
                                     bytes_of<uint16_t>({0x3c00})};
  EXPECT_EQ(reduced(kernels(), DType::kFloat16, ReduceOp::kSum, halves, 1.0),
            bytes_of<uint16_t>({0x6801}));
  const std::vector<Bytes> zeros = {bytes_of<float>({-0.0f, 0.0f, -inf}),
                                    bytes_of<float>({0.0f, -0.0f, inf})};
  EXPECT_EQ(reduced(kernels(), DType::kFloat32, ReduceOp::kMax, zeros, 1.0),
            bytes_of<float>({0.0f, 0.0f, inf}));
  EXPECT_EQ(reduced(kernels(), DType::kFloat32, ReduceOp::kMin, zeros, 1.0),
            bytes_of<float>({-0.0f, -0.0f, -inf}));
  EXPECT_EQ(reduced(kernels(), DType::kFloat32, ReduceOp::kSum, zeros, 1.0),
            bytes_of<uint32_t>({0, 0, 0x7fc00000}));  // -inf + inf
}

TEST_P(Kernels, ComplexNumbersAreAddedPartByPart) {
  for (const auto& [dtype, part] : {std::pair(DType::kComplex64, DType::kFloat32),
                                    std::pair(DType::kComplex128, DType::kFloat64)}) {
    Random random(19);
    const std::vector<Bytes> sources = random_sources(part, 3, 2 * 133, random);
    for (const double factor : {1.0, 1.0 / 3}) {
      EXPECT_EQ(reduced(kernels(), dtype, ReduceOp::kSum, sources, factor),
                expected_reduce(part, ReduceOp::kSum, sources, factor));
    }
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      EXPECT_EQ(reduced(kernels(), dtype, op, sources, 1.0), Bytes(sources[0].size()));
    }
  }
}

TEST_P(Kernels, WhatIsOnlyMovedIsLeftAlone) {
  for (const DType dtype : {DType::kBytes, DType::kFloat8E4m3fn, DType::kComplex32}) {
    const std::vector<Bytes> sources(2, Bytes(8, 1));
    EXPECT_EQ(reduced(kernels(), dtype, ReduceOp::kSum, sources, 1.0), Bytes(8));
  }
}

// All 65536 numbers through both conversions, and factors that bring the products near every
// rounding boundary.
TEST_P(Kernels, EveryHalfIsWidenedAndRoundedAsByTheReference) {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    std::vector<Bytes> every(1, Bytes(2 * 65536));
    for (size_t i = 0; i < 65536; ++i) {
      const uint16_t bits = static_cast<uint16_t>(i);
      std::memcpy(every[0].data() + 2 * i, &bits, 2);
    }
    for (const double factor :
         {1.0, 0.5, 1.0 / 3, 1.0009765625, 1.00048828125, 0x1p-10, 0x1.004p-9, 0x1p12, 1.9999}) {
      EXPECT_EQ(reduced(kernels(), dtype, ReduceOp::kSum, every, factor),
                expected_reduce(dtype, ReduceOp::kSum, every, factor))
          << dtype_name(dtype) << " times " << factor;
    }
    every.push_back(Bytes(2 * 65536));
    EXPECT_EQ(reduced(kernels(), dtype, ReduceOp::kSum, every, 1.0),
              expected_reduce(dtype, ReduceOp::kSum, every, 1.0));
  }
}

TEST_P(Kernels, ScaleOutOfPlaceAndInPlace) {
  Random random(13);
  for (const DType dtype : kAllTypes) {
    for (const double factor : {1.0, 1.0 / 3, -2.5, 1e20, kNan}) {
      for (size_t count = 0; count <= 300; count += 1 + random.below(5)) {
        const std::vector<Bytes> source = random_sources(dtype, 1, count, random);
        const Bytes expected = expected_reduce(dtype, ReduceOp::kSum, source, factor);
        Bytes there(expected.size()), here = source[0];
        kernels().scale(dtype, there.data(), source[0].data(), count, factor);
        kernels().scale(dtype, here.data(), here.data(), count, factor);
        ASSERT_EQ(there, expected)
            << dtype_name(dtype) << " times " << factor << ", count " << count;
        ASSERT_EQ(here, expected) << dtype_name(dtype) << " times " << factor << ", count " << count
                                  << ", in place";
      }
    }
  }
}

TEST_P(Kernels, WeightedSum) {
  Random random(14);
  const double weights[] = {0.7, -1.25, 1.0 / 3, 3e-5, 0.0, 1.0};
  Slot slots[8];
  for (const DType dtype : kFloatingTypes) {
    for (size_t nsrc = 1; nsrc <= 6; ++nsrc) {
      for (size_t count = 0; count <= 300; count += 1 + random.below(3)) {
        const std::vector<Bytes> sources = random_sources(dtype, nsrc, count, random);
        const size_t size = sources[0].size();
        const double scale = random.below(2) ? 1.0 : 0.3;
        const Bytes expected = expected_weighted_sum(dtype, sources, weights, scale);
        const void* srcs[6];
        for (size_t k = 0; k < nsrc; ++k)
          srcs[k] = slots[k].place(sources[k].data(), size, random.below(80));
        // which source is dst; at least nsrc means none
        const size_t in_place = random.below(2 * nsrc);
        Slot& dst = in_place < nsrc ? slots[in_place] : slots[6];
        void* to = in_place < nsrc ? const_cast<void*>(srcs[in_place])
                                   : slots[6].place(size, random.below(80));
        void* to2 = random.below(2) ? slots[7].place(size, random.below(80)) : nullptr;
        kernels().weighted_sum(dtype, to, to2, srcs, weights, nsrc, count, scale);
        ASSERT_TRUE(dst.holds(expected.data()) && dst.surroundings_untouched())
            << dtype_name(dtype) << ", sources " << nsrc << ", count " << count << ", in place "
            << in_place;
        ASSERT_TRUE(to2 == nullptr ||
                    (slots[7].holds(expected.data()) && slots[7].surroundings_untouched()));
      }
    }
  }
}

// Numbers whose products and their sums are exact in float64 in any order: halves from -50 to 50.
Bytes exact_elements(DType dtype, size_t count, Random& random) {
  Bytes bytes(count * dtype_size(dtype));
  for (size_t i = 0; i < count; ++i) {
    put_value(dtype, bytes, i, 0.5 * (static_cast<double>(random.below(201)) - 100));
  }
  return bytes;
}

double exact_product(DType dtype, const Bytes& a, const Bytes& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size() / dtype_size(dtype); ++k)
    sum += element_value(dtype, a, k) * element_value(dtype, b, k);
  return sum;
}

TEST_P(Kernels, GramAddsTheExactProducts) {
  Random random(15);
  Slot slots[5];
  for (const DType dtype : kFloatingTypes) {
    for (size_t nsrc = 1; nsrc <= 5; ++nsrc) {
      for (const size_t count : {0, 1, 7, 8, 9, 100, 301, 2047, 2048, 2049, 5003}) {
        std::vector<Bytes> sources;
        const void* srcs[5];
        for (size_t k = 0; k < nsrc; ++k) {
          sources.push_back(exact_elements(dtype, count, random));
          srcs[k] = slots[k].place(sources[k].data(), sources[k].size(), random.below(80));
        }
        std::vector<double> g(nsrc * nsrc, 0.25);
        kernels().gram(dtype, srcs, nsrc, count, g.data());
        for (size_t i = 0; i < nsrc; ++i) {
          for (size_t j = 0; j < nsrc; ++j) {
            ASSERT_EQ(g[i * nsrc + j], 0.25 + exact_product(dtype, sources[i], sources[j]))
                << dtype_name(dtype) << ", sources " << nsrc << ", count " << count << ", pair "
                << i << " " << j;
          }
        }
      }
    }
  }
}

// Finite numbers of 21 binary magnitudes, so that every other order of summing rounds differently.
Bytes uneven_elements(DType dtype, size_t count, Random& random) {
  Bytes bytes(count * dtype_size(dtype));
  for (size_t i = 0; i < count; ++i) {
    const double fraction = static_cast<double>(random.bits() >> 11) * 0x1p-53 - 0.5;
    const double value = std::ldexp(fraction, static_cast<int>(random.below(21)) - 10);
    put_value(dtype, bytes, i, value);
  }
  return bytes;
}

TEST_P(Kernels, GramHasTheBitsOfScalar) {
  Random random(16);
  for (const DType dtype : kFloatingTypes) {
    for (size_t count = 0; count <= 5003; count += count < 300 ? 1 : 671) {
      for (const bool finite : {true, false}) {
        std::vector<Bytes> sources;
        for (size_t k = 0; k < 3; ++k) {
          sources.push_back(finite ? uneven_elements(dtype, count, random)
                                   : random_elements(dtype, count, random));
        }
        const std::vector<const void*> srcs = pointers(sources);
        double g[9] = {}, scalar[9] = {};
        kernels().gram(dtype, srcs.data(), 3, count, g);
        table(Isa::kScalar).gram(dtype, srcs.data(), 3, count, scalar);
        ASSERT_EQ(std::memcmp(g, scalar, sizeof g), 0) << dtype_name(dtype) << ", count " << count;
      }
    }
  }
}

TEST_P(Kernels, CopyStreamEveryLengthAndAlignment) {
  Random random(17);
  const Bytes source = random_elements(DType::kUint8, 2000, random);
  Slot from, to;
  for (size_t size = 0; size <= 1500; ++size) {
    const unsigned char* src = from.place(source.data(), size, random.below(80));
    unsigned char* dst = to.place(size, random.below(80));
    kernels().copy_non_temporal(dst, src, size);
    ASSERT_TRUE(to.holds(source.data()) && to.surroundings_untouched()) << "size " << size;
  }
}

TEST_P(Kernels, TheIdentityChangesNothing) {
  Random random(18);
  for (const DType dtype : kAllTypes) {
    for (const ReduceOp op : kOps) {
      std::vector<Bytes> sources = random_sources(dtype, 2, 500, random);
      fill_identity(dtype, op, sources[0].data(), 500);
      // Max of x and x is x with canonical NaNs and bools of 0 or 1. The identity of Sum also makes
      // +0 of -0.
      std::vector<Bytes> same = {sources[1], sources[1]};
      Bytes expected = expected_reduce(dtype, ReduceOp::kMax, same, 1.0);
      Bytes result = reduced(kernels(), dtype, op, sources, 1.0);
      const Bytes zero(expected.size());
      if (op == ReduceOp::kSum)
        expected = expected_reduce(dtype, ReduceOp::kSum, std::vector<Bytes>{zero, expected}, 1.0);
      EXPECT_EQ(result, expected) << dtype_name(dtype) << " " << reduce_op_name(op);
      Bytes of_none(sources[0].size()), of_none2 = of_none;
      kernels().reduce({dtype, op, of_none.data(), of_none2.data(), nullptr, 0, 500, 1.0, false});
      EXPECT_EQ(of_none, sources[0]);
      EXPECT_EQ(of_none2, sources[0]);
    }
  }
}

TEST(Identity, WrittenOutByHand) {
  const auto identity = [](DType dtype, ReduceOp op) {
    Bytes result(2 * dtype_size(dtype), 0x55);
    fill_identity(dtype, op, result.data(), 2);
    return result;
  };
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(identity(DType::kInt8, ReduceOp::kMax), (Bytes{0x80, 0x80}));
  EXPECT_EQ(identity(DType::kInt8, ReduceOp::kMin), (Bytes{0x7f, 0x7f}));
  EXPECT_EQ(identity(DType::kUint16, ReduceOp::kMin), (Bytes{0xff, 0xff, 0xff, 0xff}));
  EXPECT_EQ(identity(DType::kBool, ReduceOp::kMin), (Bytes{1, 1}));
  EXPECT_EQ(identity(DType::kBool, ReduceOp::kMax), (Bytes{0, 0}));
  EXPECT_EQ(identity(DType::kFloat32, ReduceOp::kSum), bytes_of<float>({0, 0}));
  EXPECT_EQ(identity(DType::kFloat32, ReduceOp::kProduct), bytes_of<float>({1, 1}));
  EXPECT_EQ(identity(DType::kFloat32, ReduceOp::kMin), bytes_of<float>({inf, inf}));
  EXPECT_EQ(identity(DType::kFloat32, ReduceOp::kMax), bytes_of<float>({-inf, -inf}));
  EXPECT_EQ(identity(DType::kFloat16, ReduceOp::kMax), bytes_of<uint16_t>({0xfc00, 0xfc00}));
  EXPECT_EQ(identity(DType::kBfloat16, ReduceOp::kProduct), bytes_of<uint16_t>({0x3f80, 0x3f80}));
  EXPECT_EQ(identity(DType::kUint32, ReduceOp::kMin), bytes_of<uint32_t>({UINT32_MAX, UINT32_MAX}));
  EXPECT_EQ(identity(DType::kComplex64, ReduceOp::kSum), bytes_of<float>({0, 0, 0, 0}));
  EXPECT_EQ(identity(DType::kInt64, ReduceOp::kAdasum), Bytes(16, 0x55));
}

}  // namespace
}  // namespace hvd::kernels::test
