// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/pmix.h"

#include <dlfcn.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/fork_guard.h"
#include "base/mutex.h"
#include "rendezvous/env.h"
#include "rendezvous/pmix_abi.h"

namespace hvd::rendezvous {
namespace {

constexpr char kLibrary[] = "libpmix.so.2";
constexpr std::chrono::milliseconds kPause{1};  // before the server is asked again

struct Api {
  pmix::Init* init = nullptr;
  pmix::Finalize* finalize = nullptr;
  pmix::Put* put = nullptr;
  pmix::Commit* commit = nullptr;
  pmix::GetNb* get = nullptr;
  pmix::ErrorString* error_text = nullptr;
};

// The launcher's own library first: MPI in this process will ask for it by the same name and must
// not find another release. The library is never closed, because its threads and exit handlers
// stay.
void* load(const Environment& environment) {
  if (void* loaded = ::dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD)) return loaded;
  std::vector<std::string> paths;
  const std::string prefix = environment("PMIX_PREFIX").value_or(""),
                    open_mpi = environment("OMPI_LIBDIR_LOC").value_or("");
  if (!open_mpi.empty()) paths.push_back(open_mpi + "/openmpi/" + kLibrary);
  if (!prefix.empty())
    paths.insert(paths.end(), {prefix + "/lib/" + kLibrary, prefix + "/lib/openmpi/" + kLibrary});
  paths.emplace_back(kLibrary);
  for (const std::string& path : paths) {
    if (void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
      return library;
  }
  return nullptr;
}

template <class Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Api& api) {
  return find(library, "PMIx_Init", api.init) && find(library, "PMIx_Finalize", api.finalize) &&
         find(library, "PMIx_Put", api.put) && find(library, "PMIx_Commit", api.commit) &&
         find(library, "PMIx_Get_nb", api.get) &&
         find(library, "PMIx_Error_string", api.error_text);
}

struct Found {
  int status = pmix::kNotFound;
  std::string text;
};

// The answer that a thread of PMIx hands to the waiting thread. The last of the two frees it.
struct Answer {
  Mutex mutex;
  std::condition_variable arrived;
  bool here HVD_GUARDED_BY(mutex) = false;
  Found found HVD_GUARDED_BY(mutex);
  std::string key;  // read by some releases of PMIx when the answer comes
};

void take_answer(int status, pmix::Value* value, void* data) {
  const std::unique_ptr<std::shared_ptr<Answer>> handed_over(
      static_cast<std::shared_ptr<Answer>*>(data));
  Answer& answer = **handed_over;
  MutexLock lock(answer.mutex);
  const bool is_text = status == pmix::kSuccess && value != nullptr && value->type == pmix::kString;
  if (is_text && value->data.string != nullptr) answer.found.text = value->data.string;
  answer.found.status = status;
  answer.here = true;
  answer.arrived.notify_all();
}

class Session final : public PmixSession {
 public:
  Session(const Api& api, const pmix::Proc& self) : api_(api), self_(self) {}

  // A process that leaves its session open is reported by the launcher as one that died.
  void end() const {
    if (!fork_guard_.forked()) api_.finalize(nullptr, 0);
  }

  Status put(const std::string& key, const std::string& value) override {
    pmix::Value wrapped{};
    wrapped.type = pmix::kString;
    wrapped.data.string = value.c_str();
    HVD_TRY(check("put", api_.put(pmix::kGlobal, key.c_str(), &wrapped)));
    return check("commit", api_.commit());
  }

  // A server answers when the other rank has put something. Asked in the moment in which that rank
  // joins it, a server may answer that there is nothing: Open MPI 4's does so in 3 of 100 starts.
  Result<std::string> get(int rank, const std::string& key, Time deadline) override {
    const Time start = now();
    for (;;) {
      Result<Found> found = ask(rank, key, deadline);
      if (!found.ok()) return found.status();
      if (found.value().status != pmix::kNotFound) {
        HVD_TRY(check("get", found.value().status));
        return std::move(found.value().text);
      }
      if (now() >= deadline) {
        return Status(Code::kTimeout, "init: waited " + seconds_text(now() - start) + " s; rank " +
                                          std::to_string(rank) +
                                          " has put nothing into the launcher's PMIx server")
            .with_rank(rank);
      }
      std::this_thread::sleep_for(kPause);
    }
  }

 private:
  // The answer of the server by the deadline; without an answer, that nothing is found.
  Result<Found> ask(int rank, const std::string& key, Time deadline) {
    pmix::Proc owner = self_;
    owner.rank = static_cast<uint32_t>(rank);
    const auto shared = std::make_shared<Answer>();
    Answer& answer = *shared;
    answer.key = key;
    auto handed_over = std::make_unique<std::shared_ptr<Answer>>(shared);
    HVD_TRY(check(
        "get", api_.get(&owner, answer.key.c_str(), nullptr, 0, take_answer, handed_over.get())));
    static_cast<void>(handed_over.release());
    MutexLock lock(answer.mutex);
    while (!answer.here && now() < deadline) {
      if (deadline == kNever) {
        answer.arrived.wait(lock.native());
      } else {
        static_cast<void>(answer.arrived.wait_until(lock.native(), deadline));
      }
    }
    return answer.found;
  }

  Status check(const char* what, int status) const {
    if (status == pmix::kSuccess) return {};
    const char* text = api_.error_text(status);
    return {Code::kIo, std::string("PMIx: ") + what + ": " + (text == nullptr ? "" : text) + " (" +
                           std::to_string(status) + ")"};
  }

  const Api api_;
  const pmix::Proc self_;
  const ForkGuard fork_guard_;
};

Result<Session*> start(const Environment& environment) {
  void* library = load(environment);
  Api api;
  if (library == nullptr || !find_all(library, api)) {
    return Status(Code::kUnsupported,
                  std::string("PMIx: ") + kLibrary + " is not here or has not what is needed");
  }
  pmix::Proc self{};
  const int status = api.init(&self, nullptr, 0);
  if (status != pmix::kSuccess) {
    const char* text = api.error_text(status);
    return Status(Code::kUnsupported, "PMIx: init: " + quoted(text == nullptr ? "" : text) + " (" +
                                          std::to_string(status) + ")");
  }
  return new Session(api, self);
}

// The session of this process; null before it was opened. Never destroyed, because exit handlers of
// others still may run.
struct Shared {
  Mutex mutex;
  Session* session HVD_GUARDED_BY(mutex) = nullptr;
};

Shared& shared_session() {
  static auto* const shared = new Shared();
  return *shared;
}

void end_session() {
  Shared& shared = shared_session();
  MutexLock lock(shared.mutex);
  shared.session->end();
}

}  // namespace

Result<PmixSession*> PmixSession::open(const Environment& environment) {
  Shared& shared = shared_session();
  MutexLock lock(shared.mutex);
  if (shared.session == nullptr) {
    const Result<Session*> started = start(environment);
    if (!started.ok()) return started.status();
    shared.session = started.value();
    std::atexit(end_session);
  }
  return static_cast<PmixSession*>(shared.session);
}

}  // namespace hvd::rendezvous
