// SPDX-License-Identifier: Apache-2.0
#include "transport/peer_info.h"

#include <fcntl.h>
#include <hvd/version.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <span>
#include <sstream>

#include "base/allowance.h"
#include "base/fd.h"
#include "base/hash.h"
#include "transport/board.h"
#include "transport/missing.h"
#include "transport/unix_rendezvous.h"

namespace hvd::transport {
namespace {

// How long the one who leads a rendezvous may take from closing its connections to saying why, and
// the reverse.
constexpr Duration kVerdictTime = std::chrono::seconds(1);
constexpr int64_t kUnknown = -1;
constexpr uint32_t kFirstWithHost = 5;

// The facts that a rank tells of itself. Protocol, library, pid and host stand first in every
// protocol from 5 on, so that a refusal can name them.
struct PeerInfo {
  uint32_t protocol = kProtocolVersion;
  std::string library = HVD_VERSION_STRING;
  int pid = 0;
  std::string host;
  int64_t descriptors = kUnknown;  // how many more this process may open
  int64_t descriptor_limit = kUnknown;
  std::string machine;  // equal for ranks that reach each other by loopback
  bool in_process = false;
  // the caller has given `host`; otherwise it is a host name, and only the machine counts
  bool named = false;
  std::string security = secure::level_name(secure::Level::kAuth);
  bool data_mac = false;
  int tcp_streams = 1;
  std::string data_plane = "native";

  std::string text() const {
    std::ostringstream out;
    out << protocol << ' ' << library << ' ' << pid << ' ' << host.size() << ' ' << host << ' '
        << descriptors << ' ' << descriptor_limit << ' ' << machine << ' ' << in_process << ' '
        << named << ' ' << security << ' ' << data_mac << ' ' << tcp_streams << ' ' << data_plane;
    return out.str();
  }
  static bool parse(const std::string& text, PeerInfo& info) {
    std::istringstream in(text);
    if (!(in >> info.protocol >> info.library)) return false;
    if (info.protocol < kFirstWithHost) return true;  // refused by its number
    size_t length = 0;
    in >> info.pid >> length;
    if (!in || length > text.size()) return false;
    info.host.resize(length);
    in.ignore(1);
    in.read(info.host.data(), static_cast<std::streamsize>(length));
    if (info.protocol != kProtocolVersion) return true;  // the rest may be something else
    in >> info.descriptors >> info.descriptor_limit >> info.machine >> info.in_process >>
        info.named >> info.security >> info.data_mac >> info.tcp_streams >> info.data_plane;
    return static_cast<bool>(in);
  }
  // "rank 3 (host a, pid 7)", as far as it is known.
  std::string describe(int rank) const {
    const std::string number = "rank " + std::to_string(rank);
    return host.empty() ? number : number + " (host " + host + ", pid " + std::to_string(pid) + ")";
  }
};

// Options that all ranks must have alike, by their names.
struct Setting {
  const char* name;
  std::string (*of)(const PeerInfo&);
};
constexpr Setting kSettings[] = {
    {"security", [](const PeerInfo& info) { return info.security; }},
    {"data_mac", [](const PeerInfo& info) { return std::to_string(info.data_mac); }},
    {"tcp_streams", [](const PeerInfo& info) { return std::to_string(info.tcp_streams); }},
    {"cpu_operations", [](const PeerInfo& info) { return info.data_plane; }},
};

// Abstract sockets, loopback and so everything this layer does end at the network namespace.
std::string machine_identity() {
  char boot[64] = {};
  Fd file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  ssize_t got = -1;
  do {
    got = file ? ::read(file.get(), boot, sizeof boot - 1) : 0;
  } while (got < 0 && errno == EINTR);
  if (got < 0) boot[0] = '\0';
  struct stat network{};
  if (::stat("/proc/self/ns/net", &network) != 0) network.st_ino = 0;
  const std::string text = boot + std::to_string(network.st_ino);
  const Fingerprint hash = fingerprint(std::as_bytes(std::span(text)));
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, hash.high);
  return digits;
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "unnamed";
  return name;
}

PeerInfo own_info(const FabricOptions& options) {
  PeerInfo info;
  if (!options.library.empty()) info.library = options.library;
  info.pid = ::getpid();
  // Ranks that are threads share what one process may open.
  if (!options.in_process) info.descriptors = free_descriptors(&info.descriptor_limit);
  info.machine = machine_identity();
  info.in_process = options.in_process;
  info.named = !options.host.empty();
  info.security = secure::level_name(options.security);
  info.data_mac = options.data_mac;
  info.tcp_streams = options.tcp_streams;
  info.data_plane = options.data_plane;
  info.host = info.named ? options.host : host_name();
  std::replace(info.host.begin(), info.host.end(), '\n', ' ');  // a newline ends the text of a rank
  return info;
}

// Each rank decides by its own code how large a payload may travel with a message, which way a
// group goes and in which order it is summed. Two versions may differ in any of that, and only in
// wrong results would it show. So all ranks have the same one.
Status check_version(const PeerInfo& first, const PeerInfo& other, int rank) {
  if (other.protocol == first.protocol && other.library == first.library) return {};
  const auto version = [](const PeerInfo& info) {
    return info.library + " (protocol " + std::to_string(info.protocol) + ")";
  };
  return Status(Code::kVersion, "init: the library's version differs: " + first.describe(0) +
                                    " has " + version(first) + ", " + other.describe(rank) +
                                    " has " + version(other) + "; all ranks need the same")
      .with_rank(rank);
}

// How many more descriptors this rank is going to open, at most. Between hosts each pair has
// connections for messages and data.
int64_t descriptors_needed(const std::vector<PeerInfo>& infos, const std::vector<Peer>& peers,
                           size_t rank) {
  constexpr int64_t kFixed = 16;   // events, timers, listeners, the shared file
  constexpr int64_t kForSets = 8;  // for the program, and for process sets
  int64_t here = 0;
  for (const Peer& peer : peers) here += peer.host == peers[rank].host ? 1 : 0;
  const auto size = static_cast<int64_t>(peers.size());
  const int64_t per_remote = 1 + (size == 2 ? 2 : 0) + infos[rank].tcp_streams;
  return kFixed + kForSets + 3 * here + (size - here) * per_remote + (rank == 0 ? size : 0);
}

// A rank that cannot open what it needs fails somewhere in the middle, and the others would be told
// something else of it.
Status check_descriptors(const std::vector<PeerInfo>& infos, const std::vector<Peer>& peers) {
  for (size_t rank = 0; rank < infos.size(); ++rank) {
    const PeerInfo& info = infos[rank];
    const int64_t needed = descriptors_needed(infos, peers, rank);
    if (info.descriptors == kUnknown || info.descriptors >= needed) continue;
    const int64_t limit = info.descriptor_limit + needed - info.descriptors;
    return Status(Code::kIo, "init: " + info.describe(static_cast<int>(rank)) + " may open " +
                                 std::to_string(info.descriptors) + " more descriptors and needs " +
                                 std::to_string(needed) + " for a job of " +
                                 std::to_string(infos.size()) + " ranks; its limit is " +
                                 std::to_string(info.descriptor_limit) +
                                 " (RLIMIT_NOFILE): ulimit -n " + std::to_string(limit) +
                                 " before the start of the job raises it")
        .with_rank(static_cast<int>(rank))
        .with_errno(EMFILE);
  }
  return {};
}

Status check_infos(const std::vector<PeerInfo>& infos) {
  const PeerInfo& first = infos[0];
  for (size_t rank = 1; rank < infos.size(); ++rank) {
    const PeerInfo& other = infos[rank];
    const std::string number = std::to_string(rank);
    HVD_TRY(check_version(first, other, static_cast<int>(rank)));
    for (const Setting& setting : kSettings) {
      if (setting.of(other) == setting.of(first)) continue;
      return Status(Code::kMismatch, std::string("init: ") + setting.name + " differs: rank 0 " +
                                         setting.of(first) + ", rank " + number + " " +
                                         setting.of(other));
    }
    if (other.in_process != first.in_process || (first.in_process && other.pid != first.pid)) {
      return Status(Code::kInvalidArgument,
                    "init: ranks are not all threads of one process: rank 0 pid " +
                        std::to_string(first.pid) + ", rank " + number + " pid " +
                        std::to_string(other.pid));
    }
  }
  return {};
}

// Ranks share memory if they are on one machine and have the same name, or none. A name that stands
// for several hosts is shown with the machine's identity.
std::vector<Peer> peers_of(const std::vector<PeerInfo>& infos) {
  std::map<std::string, std::string> machine_of;
  std::map<std::string, bool> ambiguous;
  for (const PeerInfo& info : infos) {
    const auto [found, added] = machine_of.try_emplace(info.host, info.machine);
    if (!added && found->second != info.machine) ambiguous[info.host] = true;
  }
  // Without names, whatever the machine calls itself (containers differ) it is one host.
  std::map<std::string, std::string> name_of;
  std::vector<Peer> peers;
  for (const PeerInfo& info : infos) {
    std::string host = ambiguous.contains(info.host) ? info.host + "/" + info.machine : info.host;
    if (!info.named) host = name_of.try_emplace(info.machine, host).first->second;
    peers.push_back({static_cast<int>(peers.size()), info.pid, host});
  }
  return peers;
}

std::vector<std::string> machines_of(const std::vector<PeerInfo>& infos) {
  std::vector<std::string> machines;
  for (const PeerInfo& info : infos) machines.push_back(info.machine);
  return machines;
}

// The keys are the same in all protocols, so that a rank of another version is found and refused by
// its number.
std::string info_key(const std::string& prefix, int rank) {
  return prefix + "card/" + std::to_string(rank);
}

// What all ranks tell, a line for each: rank 0 reads each rank's, all others read what it has put
// together. With every rank reading every other's the store would be most of a large job's start.
std::string all_infos_key(const std::string& prefix) { return prefix + "cards"; }

Result<PeerInfo> info_of(const std::string& text, int rank) {
  PeerInfo info;
  if (PeerInfo::parse(text, info)) return info;
  return Status(Code::kInternal, "init: introduction of rank " + std::to_string(rank) +
                                     " in the store is malformed");
}

// Reads what every rank tells; at the deadline finds out who else has not come.
Result<std::vector<std::string>> collect_infos(rendezvous::Store& store, const PeerTable& met,
                                               const FabricOptions& options) {
  std::vector<std::string> texts;
  std::vector<int> missing;
  for (int rank = 0; rank < options.size; ++rank) {
    Result<std::string> text =
        store.get(info_key(met.prefix, rank), missing.empty() ? options.deadline : now());
    if (!text.ok() && text.status().code() != Code::kTimeout) return text.status();
    if (!text.ok()) {
      missing.push_back(rank);
      continue;
    }
    texts.push_back(std::move(text).value());
  }
  if (!missing.empty()) return missing_after_all(store, met, options, missing);
  return texts;
}

Result<std::vector<std::string>> put_together(rendezvous::Store& store, const PeerTable& met,
                                              const FabricOptions& options) {
  Result<std::vector<std::string>> texts = collect_infos(store, met, options);
  if (!texts.ok()) return texts;
  std::string all;
  for (const std::string& text : texts.value()) all += text + '\n';
  HVD_TRY(store.set(all_infos_key(met.prefix), all));
  return texts;
}

// The error of a rank that waited for rank 0 in vain: if every other rank has come, rank 0 is to
// blame.
Status too_late(rendezvous::Store& store, const PeerTable& met, const FabricOptions& options) {
  const Result<std::vector<std::string>> others = collect_infos(store, met, options);
  return others.ok() ? missing_after_all(store, met, options, {0}) : others.status();
}

Result<std::vector<std::string>> read_together(rendezvous::Store& store, const PeerTable& met,
                                               const FabricOptions& options, const PeerInfo& own) {
  // A library with another protocol may not put the texts together, and is refused by its number.
  const Result<std::string> first = store.get(info_key(met.prefix, 0), options.deadline);
  if (first.status().code() == Code::kTimeout) return too_late(store, met, options);
  if (!first.ok()) return first.status();
  const Result<PeerInfo> info = info_of(first.value(), 0);
  if (!info.ok()) return info.status();
  HVD_TRY(check_version(info.value(), own, options.rank));
  const Result<std::string> all = store.get(all_infos_key(met.prefix), options.deadline);
  if (all.status().code() == Code::kTimeout) return too_late(store, met, options);
  if (!all.ok()) return all.status();
  std::vector<std::string> texts;
  std::istringstream in(all.value());
  for (std::string line; std::getline(in, line);) texts.push_back(line);
  if (texts.size() == static_cast<size_t>(options.size)) return texts;
  return Status(Code::kInternal, "init: introductions in the store are malformed");
}

Result<std::vector<PeerInfo>> all_infos(rendezvous::Store& store, const PeerTable& met,
                                        const FabricOptions& options, const PeerInfo& own) {
  const Result<std::vector<std::string>> texts = options.rank == 0
                                                     ? put_together(store, met, options)
                                                     : read_together(store, met, options, own);
  if (!texts.ok()) return texts.status();
  std::vector<PeerInfo> infos;
  for (const std::string& text : texts.value()) {
    Result<PeerInfo> info = info_of(text, static_cast<int>(infos.size()));
    if (!info.ok()) return info.status();
    infos.push_back(std::move(info).value());
  }
  return infos;
}

}  // namespace

Result<PeerTable> exchange_peer_info(rendezvous::Store& store, const FabricOptions& options) {
  PeerTable met;
  met.started = now();
  const PeerInfo own = own_info(options);
  if (options.size == 1) {
    met.peers = peers_of({own});
    met.machine_of = {own.machine};
    return met;
  }
  const Result<int64_t> round = store.add("fabric/arrivals/" + std::to_string(options.rank), 1);
  if (!round.ok()) return round.status();
  met.round = round.value();
  met.prefix = "fabric/" + std::to_string(round.value()) + "/";
  HVD_TRY(store.set(info_key(met.prefix, options.rank), own.text()));
  const Result<std::vector<PeerInfo>> infos = all_infos(store, met, options, own);
  if (!infos.ok()) return infos.status();
  HVD_TRY(check_infos(infos.value()));
  met.peers = peers_of(infos.value());
  HVD_TRY(check_descriptors(infos.value(), met.peers));
  met.machine_of = machines_of(infos.value());
  return met;
}

Result<std::string> get_from(rendezvous::Store& store, const PeerTable& met, const std::string& key,
                             int rank, const FabricOptions& options) {
  Result<std::string> value = store.get(met.prefix + key, options.deadline);
  if (!value.ok() && value.status().code() == Code::kTimeout)
    return missing_after_all(store, met, options, {rank});
  return value;
}

void publish_verdict(rendezvous::Store& store, const PeerTable& met, const std::string& key,
                     const Status& why) {
  std::ostringstream text;
  text << static_cast<int32_t>(why.code()) << ' ' << why.rank() << ' ' << why.sys_errno() << ' '
       << why.message();
  // Without it the others put the failure down to this rank, which is all they could know.
  (void)store.set(met.prefix + key, text.str());
}

Status verdict_or(rendezvous::Store& store, const PeerTable& met, const std::string& key,
                  const Status& fallback) {
  const Result<std::string> text = store.get(met.prefix + key, now() + kVerdictTime);
  if (!text.ok()) return fallback;
  std::istringstream in(text.value());
  int32_t code = 0, rank = -1, sys_errno = 0;
  std::string message;
  in >> code >> rank >> sys_errno;
  if (!std::getline(in >> std::ws, message) || code >= 0) return fallback;
  return Status(static_cast<Code>(code), message).with_rank(rank).with_errno(sys_errno);
}

void clean_up(rendezvous::Store& store, const PeerTable& met,
              const std::vector<std::string>& keys) {
  if (met.peers.size() < 2) return;
  const std::string counter = met.prefix + "done";
  const Result<int64_t> done = store.add(counter, 1);
  if (!done.ok() || done.value() != static_cast<int64_t>(met.peers.size())) return;
  // A store that keeps these few keys does no harm, so failures are not reported.
  for (const Peer& peer : met.peers) (void)store.remove(info_key(met.prefix, peer.rank));
  for (const std::string& key : keys) (void)store.remove(met.prefix + key);
  (void)store.remove(all_infos_key(met.prefix));
  (void)store.remove(counter);
}

}  // namespace hvd::transport
