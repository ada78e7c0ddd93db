// SPDX-License-Identifier: Apache-2.0
#include "backend/nccl/library.h"

#include <dlfcn.h>

#include <filesystem>

namespace hvd::backend::nccl {

namespace {

constexpr const char* kFile = "libnccl.so.2";
constexpr int kOldest = 21400;

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

// Never closed: the library has threads.
void* load(const std::string& path, int flags = 0) {
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
}

std::string loader_words() {
  const char* why = ::dlerror();
  return why == nullptr ? kFile : why;
}

// pip puts NVIDIA's packages beside ours, which has libhvd in a folder of its own or deeper.
std::string beside_us() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&beside_us), &info) == 0 || info.dli_fname == nullptr)
    return "";
  std::error_code ignored;
  std::filesystem::path folder = std::filesystem::canonical(info.dli_fname, ignored).parent_path();
  for (int up = 0; up < 4 && folder.has_relative_path(); ++up, folder = folder.parent_path()) {
    const std::filesystem::path file = folder / "nvidia" / "nccl" / "lib" / kFile;
    if (std::filesystem::exists(file, ignored)) return file.string();
  }
  return "";
}

// The file that a symbol has come from.
std::string file_of(const void* symbol) {
  Dl_info info{};
  return ::dladdr(symbol, &info) == 0 || info.dli_fname == nullptr ? kFile : info.dli_fname;
}

void* find(const std::string& path) {
  if (!path.empty()) {
    std::error_code ignored;
    const bool folder = std::filesystem::is_directory(path, ignored);
    return load(folder ? (std::filesystem::path(path) / kFile).string() : path);
  }
  if (void* loaded = load(kFile, RTLD_NOLOAD)) return loaded;
  if (const std::string wheel = beside_us(); !wheel.empty()) {
    if (void* loaded = load(wheel)) return loaded;
  }
  return load(kFile);
}

}  // namespace

Result<std::shared_ptr<const Library>> Library::open(const std::string& path) {
  void* file = find(path);
  if (file == nullptr)
    return Status(Code::kUnsupported, "there is no NCCL library (" + loader_words() + ")");
  std::shared_ptr<Library> library(new Library());
  HVD_TRY(library->find_symbols(file));
  return std::shared_ptr<const Library>(std::move(library));
}

Status Library::find_symbols(void* library) {
  std::string absent;
#define HVD_NCCL_CALL(type, member, symbol, arguments)                           \
  calls_.member = reinterpret_cast<type(*) arguments>(::dlsym(library, symbol)); \
  if (calls_.member == nullptr && absent.empty()) absent = symbol;
#define HVD_NCCL_OPTIONAL(type, member, symbol, arguments) \
  calls_.member = reinterpret_cast<type(*) arguments>(::dlsym(library, symbol));
#include "backend/nccl/nccl.def"
#undef HVD_NCCL_OPTIONAL
#undef HVD_NCCL_CALL
  if (calls_.version != nullptr) {
    calls_.version(&version_);
    path_ = file_of(reinterpret_cast<const void*>(calls_.version));
  }
  if (absent.empty() && version_ >= kOldest) return {};
  return Status(Code::kUnsupported,
                (version_ > 0 ? name() + " (" + path_ + ")" : "the NCCL library") +
                    (absent.empty() ? "" : " lacks " + absent + " and") +
                    " is too old: " + version_text(kOldest) + " is the oldest that is supported");
}

std::string Library::name() const { return "NCCL " + version_text(version_); }

Status Library::check(int error, const char* what, CommHandle comm) const {
  if (error == kSuccess || error == kInProgress) return {};
  std::string text = std::string(what) + ": " + calls_.error_text(error);
  const char* last = comm == nullptr ? nullptr : calls_.last_error(comm);
  if (last != nullptr && *last != '\0') text += ", " + std::string(last);
  return Status(Code::kIo, text);
}

}  // namespace hvd::backend::nccl
