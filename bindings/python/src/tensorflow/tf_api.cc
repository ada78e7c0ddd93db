// SPDX-License-Identifier: Apache-2.0
#include "tf_api.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string>
#include <vector>

namespace hvd::tensorflow {
namespace {

Api api;

// TensorFlow's libraries among those that this process has loaded, the one with the registries
// first.
int collect(dl_phdr_info* info, size_t, void* found) {
  const char* slash = std::strrchr(info->dlpi_name, '/');
  const char* file = slash == nullptr ? info->dlpi_name : slash + 1;
  const bool first = std::strncmp(file, "libtensorflow_framework.so", 26) == 0;
  if (!first && std::strncmp(file, "libtensorflow_cc.so", 19) != 0 &&
      std::strncmp(file, "_pywrap_tensorflow", 18) != 0)
    return 0;
  auto& paths = *static_cast<std::vector<std::string>*>(found);
  paths.insert(first ? paths.begin() : paths.end(), info->dlpi_name);
  return 0;
}

}  // namespace

const Api& tf() { return api; }

const char* load_api() {
  std::vector<std::string> paths;
  dl_iterate_phdr(collect, &paths);
  if (paths.empty()) return "no library of TensorFlow is loaded in this process";
  std::vector<void*> libraries;
  for (const std::string& path : paths) {
    // Never unloaded by TensorFlow, so the reference is not given back.
    if (void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD)) libraries.push_back(library);
  }
  const auto find = [&libraries](const char* name) -> void* {
    for (void* library : libraries) {
      if (void* symbol = dlsym(library, name)) return symbol;
    }
    return nullptr;
  };
#define HVD_TF_FIND(result, name, arguments)                           \
  api.name = reinterpret_cast<result(*) arguments>(find("TF_" #name)); \
  if (api.name == nullptr) return "TensorFlow does not export TF_" #name;
  HVD_TF_FUNCTIONS(HVD_TF_FIND)
#undef HVD_TF_FIND
  return "";
}

}  // namespace hvd::tensorflow
