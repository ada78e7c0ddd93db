// SPDX-License-Identifier: Apache-2.0
// Signatures: round trips, canonical form, and the sentence that explains a difference.
#include "negotiation/signature.h"

#include <gtest/gtest.h>

#include <random>

namespace hvd::negotiation {
namespace {

Signature reduction(DType dtype, std::vector<int64_t> dims) {
  Signature signature;
  signature.kind = OpKind::kAllreduce;
  signature.tensors.push_back({dtype, std::move(dims)});
  return signature;
}

std::string explain(std::vector<Signature> signatures, std::vector<int> who = {}) {
  for (size_t i = who.size(); i < signatures.size(); ++i) who.push_back(static_cast<int>(i));
  return explain_difference(signatures, who);
}

TEST(Signature, ShapesThatCannotBeCountedAreRefused) {
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{-1}, {int64_t{1} << 62}, {1 << 30, 1 << 30, 1 << 30}}) {
    Bytes bytes;
    encode(reduction(DType::kFloat32, dims), bytes);
    Signature back;
    EXPECT_FALSE(decode(bytes, &back)) << shape_text(dims);
  }
}

TEST(Signature, RoundTripAndEveryCutIsSafe) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    Signature signature;
    signature.kind = static_cast<OpKind>(random() % kOpKinds);
    signature.op = static_cast<ReduceOp>(random() % 6);
    signature.root = static_cast<int32_t>(random());
    signature.prescale = random() / 3.0;
    signature.postscale = -1.0 / (1 + random());
    for (size_t t = random() % 4; t > 0; --t) {
      TensorShape& tensor = signature.tensors.emplace_back();
      tensor.dtype = static_cast<DType>(random() % 11);
      for (size_t d = random() % 5; d > 0; --d) tensor.dims.push_back(random() % 1000);
      if (traits_of(signature.kind).ragged && !tensor.dims.empty()) tensor.dims[0] = -1;
    }
    for (size_t n = random() % 4; n > 0; --n)
      signature.numbers.push_back(static_cast<int32_t>(random()));
    Bytes bytes;
    encode(signature, bytes);
    Signature back;
    ASSERT_TRUE(decode(bytes, &back));
    Bytes again;
    encode(back, again);
    EXPECT_EQ(bytes, again);
    EXPECT_EQ(explain({signature, back}), "");
    for (size_t size = 0; size < bytes.size(); ++size) {
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      if (!decode(cut, &back)) continue;
      EXPECT_LT(back.numbers.size(), signature.numbers.size())
          << "only numbers, which come last, may be fewer";
    }
  }
}

TEST(Signature, FreeDimensionsDoNotCount) {
  for (const OpKind kind : {OpKind::kAllgather, OpKind::kGather, OpKind::kAlltoall,
                            OpKind::kAllreduce, OpKind::kReducescatter}) {
    Signature a = reduction(DType::kFloat32, {2, 3});
    Signature b = reduction(DType::kFloat32, {9, 3});
    a.kind = b.kind = kind;
    Bytes of_a, of_b;
    encode(a, of_a);
    encode(b, of_b);
    EXPECT_EQ(of_a == of_b, traits_of(kind).ragged) << op_kind_name(kind);
  }
}

TEST(Explain, Texts) {
  const Signature plain = reduction(DType::kFloat32, {2, 3});
  Signature other = plain;
  other.tensors[0].dtype = DType::kFloat16;
  EXPECT_EQ(explain({plain, other}, {0, 3}), "dtype differs: rank 0 float32, rank 3 float16");
  other = reduction(DType::kFloat32, {2, 4});
  EXPECT_EQ(explain({plain, other}), "shape differs: rank 0 [2, 3], rank 1 [2, 4]");
  other = plain;
  other.op = ReduceOp::kMax;
  EXPECT_EQ(explain({plain, other}), "reduce op differs: rank 0 sum, rank 1 max");
  other = plain;
  other.kind = OpKind::kBroadcast;
  EXPECT_EQ(explain({plain, other}), "operation differs: rank 0 allreduce, rank 1 broadcast");
  other = plain;
  other.root = 2;
  EXPECT_EQ(explain({plain, other}), "root differs: rank 0 0, rank 1 2");
  other = plain;
  other.prescale = 0.5;
  EXPECT_EQ(explain({plain, other}),
            "scale differs: rank 0 prescale 1 postscale 1, rank 1 prescale 0.5 postscale 1");
  other = plain;
  other.tensors.push_back(plain.tensors[0]);
  EXPECT_EQ(explain({plain, other}), "number of tensors differs: rank 0 1, rank 1 2");
}

TEST(Explain, GroupsNameTheTensor) {
  Signature a = reduction(DType::kFloat32, {2});
  a.tensors.push_back({DType::kInt32, {-1, 4}});
  Signature b = a;
  b.tensors[1].dims = {-1, 5};
  EXPECT_EQ(explain({a, b}), "shape of tensor 1 differs: rank 0 [*, 4], rank 1 [*, 5]");
}

TEST(Explain, ProcessSets) {
  Signature a;
  a.kind = OpKind::kCreateSet;
  a.numbers = {0, 1};
  Signature b = a;
  b.numbers = {0, 2};
  EXPECT_EQ(explain({a, b}), "ranks differs: rank 0 {0 1}, rank 1 {0 2}");
  a.kind = b.kind = OpKind::kConfirmSet;
  a.numbers = {4, 0};
  b.numbers = {4, 1};
  EXPECT_EQ(explain({a, b}), "outcome differs: rank 0 ok, rank 1 failed to open it");
}

TEST(Explain, LongListsStayReadableAndNameTheOddOne) {
  std::vector<Signature> all(1000, reduction(DType::kFloat32, {1}));
  all[900] = reduction(DType::kFloat64, {1});
  const std::string text = explain(all);
  EXPECT_LT(text.size(), 400u);
  EXPECT_NE(text.find("rank 900 float64"), std::string::npos) << text;
}

}  // namespace
}  // namespace hvd::negotiation
