// SPDX-License-Identifier: Apache-2.0
// Adasum against the definition applied pair by pair to whole vectors.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstring>

#include "unit/collectives/values.h"
#include "unit/collectives/world.h"

namespace hvd::test {
namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Vector combine(const Vector& a, const Vector& b) {
  const double product = dot(a, b);
  const double aa = dot(a, a);
  const double bb = dot(b, b);
  const double of_a = aa < std::sqrt(DBL_MIN) ? 1 : 1 - product / (2 * aa);
  const double of_b = bb < std::sqrt(DBL_MIN) ? 1 : 1 - product / (2 * bb);
  Vector sum(a.size());
  for (size_t i = 0; i < a.size(); ++i) sum[i] = of_a * a[i] + of_b * b[i];
  return sum;
}

Vector tree(std::vector<Vector> vectors) {
  while (vectors.size() > 1) {
    std::vector<Vector> next;
    for (size_t i = 0; i < vectors.size(); i += 2) {
      next.push_back(i + 1 < vectors.size() ? combine(vectors[i], vectors[i + 1]) : vectors[i]);
    }
    vectors = std::move(next);
  }
  return vectors[0];
}

template <class T>
Vector widen(const Bytes& bytes) {
  Vector result(bytes.size() / sizeof(T));
  for (size_t i = 0; i < result.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    result[i] = static_cast<double>(value);
  }
  return result;
}

struct AdasumRun {
  DType dtype = DType::kFloat32;
  std::vector<size_t> counts = {1000, 1, 70001};
  double prescale = 1.0;
  double postscale = 1.0;
  int joined = -1;
};

template <class T>
void check(World& world, const AdasumRun& run, double tolerance) {
  const size_t n = static_cast<size_t>(world.size());
  std::vector<std::vector<Bytes>> outputs(n);
  world.run([&](int member) {
    std::vector<Bytes>& out = outputs[static_cast<size_t>(member)];
    std::vector<collectives::Item> items;
    for (size_t i = 0; i < run.counts.size(); ++i) {
      out.push_back(
          random_values(run.dtype, run.counts[i], static_cast<uint64_t>(member) * 100 + i));
      const bool joined = member == run.joined;
      std::byte* const data = joined ? nullptr : out[i].data();
      items.push_back({.in = data, .out = data, .count = run.counts[i]});
    }
    const collectives::Work work{.kind = collectives::Kind::kAllreduce,
                                 .dtype = run.dtype,
                                 .op = ReduceOp::kAdasum,
                                 .prescale = run.prescale,
                                 .postscale = run.postscale,
                                 .items = items};
    finish(collectives::start(world.state(member), work));
  });
  for (size_t i = 0; i < run.counts.size(); ++i) {
    std::vector<Vector> inputs;
    for (size_t m = 0; m < n; ++m) {
      if (static_cast<int>(m) == run.joined) continue;
      inputs.push_back(widen<T>(random_values(run.dtype, run.counts[i], m * 100 + i)));
      for (double& value : inputs.back()) value *= run.prescale;
    }
    const Vector want = tree(inputs);
    const size_t witness = run.joined == 0 ? 1 : 0;
    const Vector got = widen<T>(outputs[witness][i]);
    for (size_t k = 0; k < want.size(); ++k) {
      ASSERT_NEAR(got[k], want[k] * run.postscale, tolerance)
          << "item " << i << " element " << k << ", " << n << " members";
    }
    for (size_t m = 0; m < n; ++m) {
      if (static_cast<int>(m) == run.joined) continue;
      ASSERT_EQ(outputs[m][i], outputs[witness][i]) << "member " << m;
    }
  }
}

TEST(Adasum, EverySize) {
  for (int size : {1, 2, 3, 4, 5, 6, 7, 8, 11}) {
    World world = World::on_one_host(size);
    check<float>(world, {}, 1e-4);
    // Members that nearly cancel cost digits: with one element all are parallel.
    check<double>(world, {.dtype = DType::kFloat64}, 1e-9);
  }
}

TEST(Adasum, ScalesAndManyTinyTensors) {
  World world = World::on_one_host(3);
  check<double>(world,
                {.dtype = DType::kFloat64,
                 .counts = std::vector<size_t>(300, 3),
                 .prescale = 0.5,
                 .postscale = 3},
                1e-12);
}

TEST(Adasum, JoinedMembersAreLeftOut) {
  for (int joined : {0, 1, 4}) {
    World world = World::on_one_host(5);
    check<double>(world, {.dtype = DType::kFloat64, .joined = joined}, 1e-12);
  }
}

TEST(Adasum, SeveralHosts) {
  for (bool hierarchical : {true, false}) {
    World world({0, 0, 1, 0, 1}, {.hierarchical_allreduce = hierarchical});
    check<double>(world, {.dtype = DType::kFloat64, .prescale = 0.25}, 1e-12);
  }
}

}  // namespace
}  // namespace hvd::test
