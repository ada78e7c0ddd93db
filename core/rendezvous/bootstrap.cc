// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/bootstrap.h"

#include <condition_variable>
#include <map>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/mutex.h"
#include "base/threads.h"
#include "rendezvous/open_store.h"
#include "rendezvous/pmi.h"
#include "rendezvous/pmix.h"
#include "rendezvous/tcp_store.h"
#include "rendezvous/unix_store.h"
#include "rendezvous/url.h"

namespace hvd::rendezvous {
namespace {

constexpr char kPmixKey[] = "hvd.meeting";
constexpr char kNoJob[] = "job";

// An invitation is the text that rank 0 tells the others: the text says where rank 0 serves, and
// gives the secret unless the others have one already or need none. The invitation is kept for the
// contexts that this process opens later.
struct Invitation {
  std::string url;
  std::optional<secure::Secret> secret;
  bool passed = false;  // every rank can have it

  bool made() const { return !url.empty(); }
  std::string text() const { return url + ";" + (secret ? secret->text() : ""); }
  static Result<Invitation> parse(const std::string& text);
};

Result<Invitation> Invitation::parse(const std::string& text) {
  const size_t end = text.find(';');
  Invitation invitation;
  invitation.url = text.substr(0, end);
  if (end == std::string::npos || !parse_url(invitation.url).ok()) {
    return Status(Code::kIo, "init: rank 0 passes on " + std::to_string(text.size()) +
                                 " bytes that are no address");
  }
  if (end + 1 < text.size()) {
    std::string digits = text.substr(end + 1);
    Result<secure::Secret> secret = secure::Secret::parse(digits);
    secure::wipe(digits);
    if (!secret.ok()) return secret.status();
    invitation.secret = std::move(secret).value();
  }
  invitation.passed = true;
  return invitation;
}

// The invitations of this process, by job. Never destroyed: exit handlers of others may still open
// a context.
struct Memory {
  Mutex mutex;
  std::map<std::string, Invitation> invitations HVD_GUARDED_BY(mutex);
};

Memory& memory() {
  static auto* const shared = new Memory;
  return *shared;
}

Result<secure::Protection> with_secret(secure::Protection protection,
                                       const std::optional<secure::Secret>& secret) {
  if (!secret) return protection;
  Result<std::shared_ptr<secure::Keyring>> keyring = secure::Keyring::make(*secret);
  if (!keyring.ok()) return keyring.status();
  protection.keyring = std::move(keyring).value();
  return protection;
}

class Launch {
 public:
  Launch(const Place& place, const Environment& environment, const secure::Protection& protection,
         const StoreSettings& settings, const MpiBroadcast& broadcast_by_mpi)
      : place_(place),
        environment_(environment),
        protection_(protection),
        settings_(settings),
        broadcast_by_mpi_(broadcast_by_mpi) {}

  Result<Bootstrap> meet() {
    // Contexts meet one at a time: the launcher's protocols know one client per process.
    Memory& shared = memory();
    const MutexLock lock(shared.mutex);
    Invitation& invitation = shared.invitations[place_.launcher + " " + place_.job];
    return place_.rank == 0 ? invite(invitation) : follow(invitation);
  }

 private:
  bool on_one_host() const { return place_.local_size == place_.size; }
  std::string job() const { return place_.job.empty() ? kNoJob : place_.job; }

  Result<Bootstrap> invite(Invitation& invitation) {
    Result<Bootstrap> served = invitation.made() ? serve_again(invitation) : serve(invitation);
    if (!served.ok() || invitation.passed) return served;
    std::string text = invitation.text();
    Result<std::string> passed = pass_on(text);
    secure::wipe(text);
    if (!passed.ok()) return passed.status();
    secure::wipe(passed.value());
    invitation.passed = true;
    return served;
  }

  Result<Bootstrap> follow(Invitation& invitation) {
    if (!invitation.passed) {
      Result<std::string> passed = pass_on("");
      if (!passed.ok()) return passed.status();
      Result<Invitation> parsed = Invitation::parse(passed.value());
      secure::wipe(passed.value());
      if (!parsed.ok()) return parsed.status();
      invitation = std::move(parsed).value();
    }
    return join(invitation);
  }

  // Gives every rank the text of rank 0.
  Result<std::string> pass_on(const std::string& text) {
    if (place_.way == Way::kPmi) return pass_by_pmi(text);
    if (place_.way == Way::kPmix) return pass_by_pmix(text);
    Result<std::string> passed = pass_by_mpi(text);
    if (passed.status().code() != Code::kUnsupported) return passed;
    Result<std::string> other = pass_by_pmix(text);
    if (other.status().code() != Code::kUnsupported) return other;
    return Status(Code::kUnsupported, "init: " + place_.launcher +
                                          " on several hosts: " + passed.status().message() + "; " +
                                          other.status().message() +
                                          "; HOROVOD_RENDEZVOUS=tcp://host:port/job with "
                                          "HOROVOD_SECRET_FILE needs neither");
  }

  // MPI waits without a limit of time for ranks that do not come, so it waits in a thread of its
  // own, which stays behind then.
  Result<std::string> pass_by_mpi(const std::string& text) {
    struct Passing {
      Mutex mutex;
      std::condition_variable ended;
      std::string text;  // the thread's own until there is a status
      std::optional<Status> status HVD_GUARDED_BY(mutex);
      std::thread thread;
    };
    const Time start = now();
    auto passing = std::make_shared<Passing>();
    passing->text = text;
    const auto body = [passing, place = place_, broadcast = broadcast_by_mpi_] {
      Status status = Status::out_of_memory();
      try {
        status = broadcast(place, &passing->text);
      } catch (const std::bad_alloc&) {
        // The status stays what it is: memory was missing.
      }
      const MutexLock lock(passing->mutex);
      passing->status = std::move(status);
      passing->ended.notify_one();
    };
    HVD_TRY(start_thread(body, "the thread that meets by MPI", &passing->thread));
    MutexLock lock(passing->mutex);
    const auto ended = [&]() HVD_REQUIRES(passing->mutex) { return passing->status.has_value(); };
    if (settings_.deadline == kNever) {
      passing->ended.wait(lock.native(), ended);
    } else if (!passing->ended.wait_until(lock.native(), settings_.deadline, ended)) {
      passing->thread.detach();
      return Status(Code::kTimeout, "init: waited " + seconds_text(now() - start) +
                                        " s for MPI; not every rank is here");
    }
    const Status status = *passing->status;
    lock.unlock();
    passing->thread.join();
    HVD_TRY(status);
    std::string passed = passing->text;
    secure::wipe(passing->text);
    return passed;
  }

  Result<std::string> pass_by_pmix(const std::string& text) {
    const Result<PmixSession*> session = PmixSession::open(environment_);
    if (!session.ok()) return session.status();
    if (place_.rank == 0) {
      HVD_TRY(session.value()->put(kPmixKey, text));
      return text;
    }
    return session.value()->get(0, kPmixKey, settings_.deadline);
  }

  Result<std::string> pass_by_pmi(const std::string& text) {
    const std::string variable = environment_("PMI_FD").value_or("");
    const Result<int> fd = read_number("PMI_FD", variable, 0, 1 << 20);
    if (!fd.ok()) return fd.status();
    end_pmi_at_exit(fd.value());
    return share_by_pmi(fd.value(), place_.rank == 0, text, settings_.deadline);
  }

  Result<Bootstrap> serve(Invitation& invitation) {
    Bootstrap bootstrap{nullptr, protection_, ""};
    if (on_one_host()) {
      const Result<secure::Secret> name = secure::Secret::random();
      if (!name.ok()) return name.status();
      HVD_TRY(open_unix({"launch." + name.value().text().substr(0, 32)}, bootstrap));
    } else {
      std::optional<secure::Secret> fresh;
      if (protection_.level != secure::Level::kNone && !protection_.keyring) {
        Result<secure::Secret> secret = secure::Secret::random();
        if (!secret.ok()) return secret.status();
        fresh = std::move(secret).value();
      }
      HVD_TRY(serve_tcp(fresh, bootstrap));
      invitation.secret = std::move(fresh);
    }
    invitation.url = bootstrap.url;
    return bootstrap;
  }

  Status open_unix(const UnixUrl& url, Bootstrap& bootstrap) {
    auto store = open_unix_store(url, settings_);
    if (!store.ok()) return store.status();
    bootstrap.store = std::move(store).value();
    bootstrap.url = "unix://" + url.name;
    return {};
  }

  Status serve_tcp(const std::optional<secure::Secret>& secret, Bootstrap& bootstrap) {
    const Result<std::vector<InterfaceAddress>> own = addresses_of(settings_.interfaces);
    if (!own.ok()) return own.status();
    std::vector<SocketAddress> addresses;
    for (const InterfaceAddress& entry : own.value()) {
      if (addresses.size() < kMostCandidates) addresses.push_back(entry.address);
    }
    return serve_at(addresses, secret, bootstrap);
  }

  Status serve_at(const std::vector<SocketAddress>& addresses,
                  const std::optional<secure::Secret>& secret, Bootstrap& bootstrap) {
    Result<secure::Protection> protection = with_secret(protection_, secret);
    if (!protection.ok()) return protection.status();
    bootstrap.protection = std::move(protection).value();
    StoreSettings settings = settings_;
    settings.keyring = bootstrap.protection.keyring;
    auto served = TcpStore::serve(addresses, job(), settings);
    if (!served.ok()) return served.status();
    bootstrap.store = std::move(served.value().store);
    bootstrap.url = served.value().url.text();
    return {};
  }

  // Serves the store again: the store of an earlier context is gone, but the others know only that
  // store's address and secret.
  Result<Bootstrap> serve_again(const Invitation& invitation) {
    Bootstrap bootstrap{nullptr, protection_, ""};
    const Result<Url> url = parse_url(invitation.url);
    if (!url.ok()) return url.status();
    if (const auto* name = std::get_if<UnixUrl>(&url.value())) {
      HVD_TRY(open_unix(*name, bootstrap));
      return bootstrap;
    }
    std::vector<SocketAddress> addresses;
    for (const auto& candidate : std::get<TcpUrl>(url.value()).candidates) {
      if (const auto address = SocketAddress::parse(candidate.host, candidate.port))
        addresses.push_back(*address);
    }
    HVD_TRY(serve_at(addresses, invitation.secret, bootstrap));
    return bootstrap;
  }

  Result<Bootstrap> join(const Invitation& invitation) {
    const Result<Url> url = parse_url(invitation.url);
    if (!url.ok()) return url.status();
    Result<secure::Protection> protection = with_secret(protection_, invitation.secret);
    if (!protection.ok()) return protection.status();
    Bootstrap bootstrap{nullptr, std::move(protection).value(), invitation.url};
    StoreSettings settings = settings_;
    settings.keyring = bootstrap.protection.keyring;
    auto store = open_store(url.value(), settings);
    if (!store.ok()) return store.status();
    bootstrap.store = std::move(store).value();
    return bootstrap;
  }

  const Place& place_;
  const Environment& environment_;
  const secure::Protection& protection_;
  const StoreSettings& settings_;
  const MpiBroadcast& broadcast_by_mpi_;
};

}  // namespace

Result<Bootstrap> meet_through_launcher(const Place& place, const Environment& environment,
                                        const secure::Protection& protection,
                                        const StoreSettings& settings,
                                        const MpiBroadcast& broadcast_by_mpi) {
  return Launch(place, environment, protection, settings, broadcast_by_mpi).meet();
}

}  // namespace hvd::rendezvous
