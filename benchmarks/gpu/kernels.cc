// SPDX-License-Identifier: Apache-2.0
// kernels: whether our kernels are right on this GPU, and how fast they pack tensors. `kernels
// --help` says more.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "backend/nccl/fusion.h"
#include "packing.h"
#include "unit/device/kernel_checks.h"

namespace {

using bench::Packing;
using bench::Sizes;
using bench::Times;
using hvd::device::Kernels;
using hvd::gpu::Gpu;

enum { kRight = 0, kWrong = 1, kUsage = 2, kSkipped = 77 };

constexpr const char* kHelp =
    R"(usage: kernels [--check] [--quick] [--goal RATIO] [--kernels WHERE]

Runs the library's CUDA kernels on the first GPU of this machine.

First their values are compared with the CPU's: copies of pieces at every alignment, products in
eight element types, both in a CUDA graph that is captured once and launched on changing data, and
Adasum of up to eight members in four types. Then it measures, by CUDA events:

  ResNet-50's 161 gradients, in float32 and float16, packed into contiguous memory and unpacked
  again, in GB/s of what is read and written. The limit is one cuMemcpyDtoDAsync of as many bytes,
  in turns with it in the same run; `ratio` is the share of the limit that is reached, best time by
  best time. `queue us` is what the host needs to queue it.
  What an allreduce of these gradients packs of them: only small ones, through its buffer.
  600 small tensors, beside 600 calls of cuMemcpyDtoDAsync.

  --check          compares the values and measures nothing
  --quick          few repeats: to see that it runs, not how fast
  --goal RATIO     the least ratio of packing and unpacking in float32; 0.85 if not given, 0 on what
                   is no GPU
  --kernels WHERE  `auto`: those that nvcc has compiled into the library (default); or a file of
                   them, as HOROVOD_CUDA_KERNELS

exit code: 0 all is right and the goal is met; 1 a value is wrong, a call failed, or the goal is
missed; 2 wrong usage; 77 there is no GPU, or no kernels for it (it says why)
)";

struct Options {
  bool check_only = false;
  bool quick = false;
  double goal = 0.85;
  std::string kernels = "auto";
};

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--check") {
      options->check_only = true;
    } else if (word == "--quick") {
      options->quick = true;
    } else if (word == "--kernels" && value != nullptr) {
      options->kernels = argv[++i];
    } else if (word == "--goal" && value != nullptr) {
      char* end = nullptr;
      options->goal = std::strtod(argv[++i], &end);
      if (end == value || *end != '\0') return false;
    } else {
      return false;
    }
  }
  return true;
}

// Whether nothing differs; else it is printed.
bool right(const std::string& difference) {
  if (!difference.empty()) std::printf("WRONG: %s\n", difference.c_str());
  return difference.empty();
}

bool values_are_right(Gpu& gpu, const Kernels& kernels) {
  bool all = true;
  // First of all, to see that a kernel's first launch may be one that is captured.
  for (const int mode :
       {hvd::gpu::kCaptureGlobal, hvd::gpu::kCaptureThreadLocal, hvd::gpu::kCaptureRelaxed}) {
    all = right(check_graph(gpu, kernels, mode)) && all;
  }
  all = right(check_copies(gpu, kernels)) && all;
  for (const hvd::DType dtype : hvd::gpu::kScaled)
    all = right(check_products(gpu, kernels, dtype)) && all;
  all = right(check_adasum(gpu, kernels)) && all;
  if (all)
    std::printf("values: copies, products of %zu types, Adasum and graphs are right\n",
                std::size(hvd::gpu::kScaled));
  return all;
}

bench::Plan plan_of(const Options& options) {
  return options.quick ? bench::Plan{2, 3, 0} : bench::Plan{};
}

double gigabytes(size_t bytes, double microseconds) {
  return 2 * static_cast<double>(bytes) / microseconds / 1000;
}

// The smaller ratio of packing and unpacking.
double report(const std::vector<Times>& times, size_t bytes) {
  const char* names[] = {"one copy", "pack", "unpack"};
  std::printf("  %-10s %10s %8s %10s %10s %10s\n", "", "GB/s", "ratio", "best us", "median us",
              "queue us");
  double least = 0;
  for (size_t way = 0; way < times.size(); ++way) {
    const Times& one = times[way];
    const double ratio = times[0].best / one.best;
    if (way == 1 || (way == 2 && ratio < least)) least = ratio;
    std::printf("  %-10s %10.1f %8.3f %10.1f %10.1f %10.1f\n", names[way],
                gigabytes(bytes, one.best), ratio, one.best, one.median, one.queueing);
  }
  return least;
}

// As NcclComm has them packed, through one buffer; without the reduction between.
void report_fusion(Gpu& gpu, const Kernels& kernels, const Packing& packing,
                   const bench::Plan& plan) {
  namespace nccl = hvd::backend::nccl;
  std::vector<hvd::backend::Item> items;
  for (const Kernels::Segment& segment : packing.segments()) {
    void* memory = const_cast<void*>(segment.from);
    items.push_back({memory, memory, segment.bytes / sizeof(float)});
  }
  hvd::backend::Work work;
  work.dtype = hvd::DType::kFloat32;
  work.items = items;
  auto* buffer = reinterpret_cast<std::byte*>(gpu.memory(nccl::kFusionBytes));
  size_t rounds = 0;
  size_t calls = 0;
  size_t bytes = 0;
  const auto run = [&] {
    rounds = calls = bytes = 0;
    nccl::Fusion fusion;
    for (size_t first = 0; first < items.size(); first = fusion.next(), ++rounds) {
      fusion.plan(work, nccl::scaling_of(work), first, buffer);
      hvd::gpu::must(kernels.copy(gpu.stream(), fusion.into()));
      hvd::gpu::must(kernels.copy(gpu.stream(), fusion.back()));
      calls += fusion.items().size();
      for (const Kernels::Segment& segment : fusion.into()) bytes += segment.bytes;
    }
  };
  const Times times = measure(gpu, plan, {run}).front();
  std::printf(
      "  an allreduce packs %.1f MB of it, in %zu rounds: %.1f us there and back, %.1f us to "
      "queue; NCCL is given %zu "
      "tensors\n",
      static_cast<double>(bytes) / 1e6, rounds, times.best, times.queueing, calls);
}

struct Verdict {
  bool right = true;
  double ratio = 0;
};

Verdict run_resnet50(Gpu& gpu, const Kernels& kernels, const Options& options, const char* dtype,
                     size_t element) {
  const Sizes sizes = bench::resnet50();
  Packing packing(gpu, kernels, sizes, element);
  std::printf("ResNet-50, %zu gradients, %s, %.1f MB\n", sizes.size(), dtype,
              static_cast<double>(packing.bytes()) / 1e6);
  Verdict verdict;
  verdict.right = right(packing.check());
  const auto times =
      measure(gpu, plan_of(options),
              {[&] { packing.copy_all(); }, [&] { packing.pack(); }, [&] { packing.unpack(); }});
  verdict.ratio = report(times, packing.bytes());
  if (element == sizeof(float)) report_fusion(gpu, kernels, packing, plan_of(options));
  gpu.release();
  return verdict;
}

bool run_small(Gpu& gpu, const Kernels& kernels, const Options& options) {
  const Sizes sizes = bench::small_tensors();
  Packing packing(gpu, kernels, sizes, sizeof(float));
  const bool is_right = right(packing.check());
  bench::Plan plan = plan_of(options);
  // more copies would not fit into the driver's queue, and the host would wait for the device
  plan.passes = 1;
  const auto times = measure(gpu, plan, {[&] { packing.pack(); }, [&] { packing.copy_each(); }});
  std::printf("%zu small tensors, float32, %.1f MB\n", sizes.size(),
              static_cast<double>(packing.bytes()) / 1e6);
  std::printf("  pack                 %10.1f us, %10.1f us to queue\n", times[0].best,
              times[0].queueing);
  std::printf("  a copy for each      %10.1f us, %10.1f us to queue: %.1f times as long\n",
              times[1].best, times[1].queueing, times[1].best / times[0].best);
  gpu.release();
  return is_right;
}

int run(const Options& options) {
  const auto refuse = [](const hvd::Status& why) {
    std::printf("%s\n", why.message().c_str());
    return why.code() == hvd::Code::kUnsupported ? kSkipped : kWrong;
  };
  const hvd::Result<std::unique_ptr<Gpu>> opened = Gpu::open();
  if (!opened.ok()) return refuse(opened.status());
  Gpu& gpu = *opened.value();
  const hvd::Result<std::unique_ptr<Kernels>> loaded = Kernels::load(gpu.device(), options.kernels);
  if (!loaded.ok()) return refuse(loaded.status());
  const Kernels& kernels = *loaded.value();
  std::printf("kernels on %s\n", gpu.name().c_str());
  if (!values_are_right(gpu, kernels)) return kWrong;
  if (options.check_only) return kRight;
  const Verdict wide = run_resnet50(gpu, kernels, options, "float32", sizeof(float));
  const Verdict narrow = run_resnet50(gpu, kernels, options, "float16", sizeof(uint16_t));
  const bool small = run_small(gpu, kernels, options);
  const bool met = wide.ratio >= options.goal;
  std::printf("ratio %.3f in float32 (goal %.2f: %s)\n", wide.ratio, options.goal,
              met ? "met" : "missed");
  return met && wide.right && narrow.right && small ? kRight : kWrong;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc > 1 && (std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0)) {
    std::fputs(kHelp, stdout);
    return kRight;
  }
  if (!parse(argc, argv, &options)) {
    std::fputs("kernels: wrong usage; --help explains\n", stderr);
    return kUsage;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::printf("FAILED: %s\n", error.what());
    return kWrong;
  }
}
