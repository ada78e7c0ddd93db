// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over every file of a corpus, and over each file cut short and with single
// bytes changed. Needs no fuzzing engine, so every compiler exercises the targets.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "target.h"

namespace {

using Input = std::vector<uint8_t>;

size_t run_variants(const Input& input) {
  size_t runs = 0;
  const auto run = [&](const Input& variant) {
    // A copy of exact size, so that a sanitizer sees the first byte read beyond the end.
    const Input exact(variant.begin(), variant.end());
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
    ++runs;
  };
  run(input);
  for (size_t at = 0; at < input.size(); ++at) {
    run(Input(input.begin(), input.begin() + static_cast<std::ptrdiff_t>(at)));
    for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff, input[at] ^ 0x20}) {
      Input changed = input;
      changed[at] = static_cast<uint8_t>(value);
      run(changed);
    }
  }
  return runs;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  for (int arg = 1; arg < argc; ++arg) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[arg]))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  size_t runs = 0;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    runs += run_variants(Input(std::istreambuf_iterator<char>(stream), {}));
  }
  std::printf("%zu files, %zu inputs\n", files.size(), runs);
  return files.empty() ? 1 : 0;
}
