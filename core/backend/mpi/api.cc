// SPDX-License-Identifier: Apache-2.0
#include "backend/mpi/api.h"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace hvd::backend::mpi {
namespace {

// Open MPI 1.10 to 5; MPICH and its relatives are libmpi.so.12.
constexpr char kOpenMpi[] = "libmpi.so.40";
constexpr char kMpich[] = "libmpi.so.12";

std::string first_line(std::string text) {
  text.resize(std::min(text.find_first_of(",\n"), text.size()));
  return text;
}

std::string version_of(int (*get)(char*, int*)) {
  if (get == nullptr) return "no MPI_Get_library_version";
  std::vector<char> text(kMaxLibraryVersion, '\0');
  int length = 0;
  if (get(text.data(), &length) != kSuccess) return "unknown version";
  return first_line(text.data());
}

// A library loaded by somebody else before us is the one to use: two MPIs in one process cannot
// work. Components of Open MPI look symbols up globally.
void* find_library(std::string* problem) {
  if (void* there = dlopen(kOpenMpi, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD)) return there;
  if (void* there = dlopen(kMpich, RTLD_NOW | RTLD_NOLOAD)) {
    const auto get =
        reinterpret_cast<int (*)(char*, int*)>(dlsym(there, "MPI_Get_library_version"));
    *problem = std::string("this process has loaded ") + kMpich + " (" + version_of(get) +
               "); Open MPI is supported";
    dlclose(there);
    return nullptr;
  }
  dlerror();
  if (void* loaded = dlopen(kOpenMpi, RTLD_NOW | RTLD_GLOBAL)) return loaded;
  const char* why = dlerror();
  *problem =
      std::string(kOpenMpi) + " does not load: " + (why != nullptr ? why : "no reason given");
  return nullptr;
}

bool look_up(void* library, Api* api, std::string* problem) {
  const auto symbol = [&](const char* name) {
    void* found = dlsym(library, name);
    if (found == nullptr && problem->empty()) *problem = name;
    return found;
  };
  api->Get_library_version =
      reinterpret_cast<int (*)(char*, int*)>(dlsym(library, "MPI_Get_library_version"));
#define HVD_MPI_OBJECT(name, exported) api->name = symbol(#exported);
  HVD_MPI_OBJECTS(HVD_MPI_OBJECT)
#undef HVD_MPI_OBJECT
#define HVD_MPI_FUNCTION(name, arguments) \
  api->name = reinterpret_cast<int(*) arguments>(symbol("MPI_" #name));
  HVD_MPI_FUNCTIONS(HVD_MPI_FUNCTION)
#undef HVD_MPI_FUNCTION
#define HVD_MPI_FUNCTION(name, exported, arguments) \
  api->name = reinterpret_cast<int(*) arguments>(dlsym(library, exported));
  HVD_MPI_OPTIONAL(HVD_MPI_FUNCTION)
#undef HVD_MPI_FUNCTION
  api->version = version_of(api->Get_library_version);
  if (problem->empty()) return true;
  *problem = std::string(kOpenMpi) + " (" + api->version + ") lacks " + *problem +
             "; Open MPI is supported, MPICH is not";
  return false;
}

}  // namespace

const Api* load_api(std::string* problem) {
  static std::mutex mutex;
  static Api* api = nullptr;  // never freed: MPI is finalised after every destructor has run
  const std::lock_guard lock(mutex);
  if (api != nullptr) return api;
  void* library = find_library(problem);
  if (library == nullptr) return nullptr;
  auto* found = new Api;
  problem->clear();
  if (look_up(library, found, problem)) {
    api = found;
  } else {
    delete found;
    dlclose(library);
  }
  return api;
}

std::string error_text(const Api& api, int code) {
  char text[kMaxErrorString + 1] = {};
  int length = 0;
  if (api.Error_string(code, text, &length) != kSuccess) return "error " + std::to_string(code);
  return text;
}

}  // namespace hvd::backend::mpi
