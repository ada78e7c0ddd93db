// SPDX-License-Identifier: Apache-2.0
#include "backend/plugin/library.h"

#include <dlfcn.h>

#include <filesystem>
#include <set>
#include <string_view>

namespace hvd::backend::plugin {
namespace {

Result<std::string> own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) {
    return Status(Code::kUnsupported,
                  "the folder of libhvd can not be found out; the option backend_path names one");
  }
  std::error_code ignored;
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, ignored);
  return (file.empty() ? std::filesystem::path(info.dli_fname) : file).parent_path().string();
}

constexpr std::string_view kBeginning = "hvd-backend-", kEnding = ".so";

// "that folder has gloo, mpi", for a user who has mistyped a name or has installed elsewhere.
std::string plugins_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string file = entry.path().filename().string();
    if (file.size() <= kBeginning.size() + kEnding.size() || !file.starts_with(kBeginning) ||
        !file.ends_with(kEnding))
      continue;
    names.insert(file.substr(kBeginning.size(), file.size() - kBeginning.size() - kEnding.size()));
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "that folder has none" : "that folder has " + list;
}

// Whether the table has the fields that this version needs; later fields may be missing.
bool complete(const Table& table) {
  return table.struct_size >= offsetof(Table, launch) && table.name != nullptr &&
         table.load != nullptr && table.open != nullptr && table.close != nullptr &&
         table.abort != nullptr && table.reduces != nullptr && table.start != nullptr &&
         table.poll != nullptr;
}

}  // namespace

Status ErrorText::status(const char* backend, int32_t code) const {
  if (code == 0) return {};
  if (code > 0) return Status::pending();
  return Status(static_cast<Code>(code), std::string("backend ") + backend + ": " + text_);
}

Result<Library> Library::load(const std::string& name, const std::string& folder) {
  std::string place = folder;
  if (place.empty()) {
    Result<std::string> own = own_folder();
    if (!own.ok()) return own.status();
    place = std::move(own).value();
  }
  const std::string path =
      (std::filesystem::path(place) / (std::string(kBeginning) + name + std::string(kEnding)))
          .string();
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kUnsupported, "backend " + name + ": " + why);
  };
  std::error_code ignored;
  if (name.find('/') != std::string::npos || !std::filesystem::exists(path, ignored)) {
    const std::string remedy =
        "; it is built where Gloo is: install it (Debian: apt install libgloo-dev), then build and "
        "install this again";
    return refuse("no plug-in at " + path + (name == "gloo" ? remedy : "; " + plugins_in(place)));
  }
  void* file = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (file == nullptr) {
    const char* why = dlerror();
    return refuse(std::string("the plug-in does not load: ") +
                  (why != nullptr ? why : path.c_str()));
  }
  const auto entry = reinterpret_cast<Entry>(dlsym(file, kEntry));
  if (entry == nullptr) return refuse(path + " is no plug-in: it lacks the symbol " + kEntry);
  const Table* table = entry();
  if (table == nullptr || table->abi != kAbi) {
    return refuse(path + " has plug-in ABI " + std::to_string(table == nullptr ? 0 : table->abi) +
                  ", this libhvd has " + std::to_string(kAbi));
  }
  if (!complete(*table)) {
    return refuse(path + " has a table of " + std::to_string(table->struct_size) +
                  " bytes that lacks functions; this libhvd needs " +
                  std::to_string(offsetof(Table, launch)));
  }
  return Library(table, path);
}

bool Library::has_device_memory() const {
  constexpr size_t kEnd = offsetof(Table, takes_device_memory) + sizeof table_->takes_device_memory;
  return table_->struct_size >= kEnd && table_->takes_device_memory != nullptr;
}

Result<std::string> Library::version() const {
  const LibrarySettings defaults;
  const Settings settings = defaults.settings();
  ErrorText text;
  if (const int32_t code = table_->load(&settings, text); code != 0)
    return text.status(table_->name, code);
  return std::string(text.text());
}

}  // namespace hvd::backend::plugin
