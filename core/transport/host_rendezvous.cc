// SPDX-License-Identifier: Apache-2.0
#include "transport/host_rendezvous.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "transport/host_shared_memory.h"
#include "transport/missing.h"

namespace hvd::transport {
namespace {

constexpr const char* kSecretKey = "secret";
constexpr const char* kTokenKey = "token";
constexpr const char* kFindersKey = "verdict-finders/hosts";
constexpr const char* kVerdictKey = "verdict/hosts";

std::string address_key(int rank) { return "tcp/" + std::to_string(rank); }

class HostRendezvous {
 public:
  HostRendezvous(rendezvous::Store& store, const FabricOptions& options, const PeerTable& met,
                 const Topology& topology)
      : store_(store), options_(options), met_(met), topology_(topology) {}

  Result<std::unique_ptr<TcpMesh>> run(Events& events) {
    MeshOptions mesh_options;
    Result<Credentials> credentials = share_credentials();
    if (!credentials.ok()) return credentials.status();
    mesh_options.credentials = std::move(credentials).value();
    Result<std::vector<SocketAddress>> own = own_addresses();
    if (!own.ok()) return own.status();
    mesh_options.listen_at = own.value();
    mesh_options.streams = options_.tcp_streams;
    mesh_options.peer_timeout = options_.peer_timeout;
    mesh_options.lost = options_.lost;
    mesh_options.log = options_.log;
    Result<std::unique_ptr<TcpMesh>> mesh =
        TcpMesh::listen(events, topology_, std::move(mesh_options));
    if (!mesh.ok()) return mesh;

    std::string text;
    for (const SocketAddress& address : mesh.value()->addresses()) text += address.text() + " ";
    HVD_TRY(store_.set(met_.prefix + address_key(options_.rank), text));
    for (int rank = 0; rank < options_.rank; ++rank) {
      if (!remote(rank)) continue;
      Result<std::vector<SocketAddress>> candidates = candidates_of(rank);
      if (!candidates.ok()) return candidates.status();
      mesh.value()->call(rank, std::move(candidates).value());
    }
    const Status status = mesh.value()->meet(met_.started, options_.deadline);
    if (status.ok()) return mesh;
    return explain(status, mesh.value()->missing());
  }

 private:
  // The first rank that finds another one gone tells the others, who otherwise would blame ranks
  // that gave up because of it.
  Status explain(const Status& why, const std::vector<int>& missing) {
    if (why.code() == Code::kTimeout) {
      const std::vector<int> awaited = missing.empty() ? std::vector<int>{why.rank()} : missing;
      return missing_after_all(store_, met_, options_, awaited, why);
    }
    if (why.code() != Code::kPeerLost) return why;
    const Result<int64_t> finders = store_.add(met_.prefix + kFindersKey, 1);
    if (!finders.ok()) return why;
    if (finders.value() > 1) return verdict_or(store_, met_, kVerdictKey, why);
    publish_verdict(store_, met_, kVerdictKey, why);
    return why;
  }

  bool remote(int rank) const {
    return topology_.host_index(rank) != topology_.host_index(options_.rank);
  }
  bool same_machine(int rank) const { return machine_of(rank) == machine_of(options_.rank); }
  const std::string& machine_of(int rank) const {
    return met_.machine_of[static_cast<size_t>(rank)];
  }

  // A secret that came from elsewhere is not sent again; a secret that goes through the store is as
  // safe as the store.
  Result<Credentials> share_credentials() {
    Credentials credentials;
    credentials.level = options_.security;
    credentials.seal_data = options_.data_mac;
    credentials.job = options_.job;
    credentials.epoch = met_.round;
    credentials.keyring = options_.keyring;
    if (credentials.level == secure::Level::kNone) {
      Result<std::string> token =
          options_.rank == 0 ? random_token() : get_from(store_, met_, kTokenKey, 0, options_);
      if (!token.ok()) return token.status();
      credentials.token = token.value();
      if (options_.rank == 0) HVD_TRY(store_.set(met_.prefix + kTokenKey, token.value()));
    } else if (!credentials.keyring) {
      Result<std::shared_ptr<secure::Keyring>> keyring =
          options_.rank == 0 ? publish_secret() : receive_secret();
      if (!keyring.ok()) return keyring.status();
      credentials.keyring = keyring.value();
    }
    return credentials;
  }

  Result<std::shared_ptr<secure::Keyring>> publish_secret() {
    Result<secure::Secret> secret = secure::Secret::random();
    if (!secret.ok()) return secret.status();
    std::string text = secret.value().text();
    const Status set = store_.set(met_.prefix + kSecretKey, text);
    secure::wipe(text);
    HVD_TRY(set);
    return secure::Keyring::make(std::move(secret).value());
  }

  Result<std::shared_ptr<secure::Keyring>> receive_secret() {
    Result<std::string> text = get_from(store_, met_, kSecretKey, 0, options_);
    if (!text.ok()) return text.status();
    Result<secure::Secret> secret = secure::Secret::parse(text.value());
    secure::wipe(text.value());
    if (!secret.ok()) return secret.status();
    return secure::Keyring::make(std::move(secret).value());
  }

  // Loopback for hosts that this machine plays, the interfaces for other machines; only what
  // somebody needs.
  Result<std::vector<SocketAddress>> own_addresses() const {
    bool here = false, elsewhere = false;
    for (int rank = 0; rank < topology_.size(); ++rank) {
      if (remote(rank)) (same_machine(rank) ? here : elsewhere) = true;
    }
    std::vector<SocketAddress> addresses;
    if (here) {
      const std::optional<SocketAddress> played = SocketAddress::parse(options_.host, 0);
      addresses.push_back(played && played->is_loopback() ? *played
                                                          : *SocketAddress::parse("127.0.0.1", 0));
    }
    if (!elsewhere) return addresses;
    const Result<std::vector<InterfaceAddress>> found = addresses_of(options_.interfaces);
    if (!found.ok()) return Status(found.status().code(), "init: " + found.status().message());
    for (const InterfaceAddress& entry : found.value()) {
      if (!entry.address.is_loopback()) addresses.push_back(entry.address);
    }
    if (addresses.size() > (here ? 1u : 0u)) return addresses;
    return Status(Code::kInvalidArgument,
                  "init: network interfaces \"" + options_.interfaces +
                      "\" have loopback addresses only, and ranks are on other machines");
  }

  Result<std::vector<SocketAddress>> candidates_of(int rank) {
    const Result<std::string> text = get_from(store_, met_, address_key(rank), rank, options_);
    if (!text.ok()) return text.status();
    std::vector<SocketAddress> candidates;
    std::istringstream in(text.value());
    for (std::string word; in >> word;) {
      const std::optional<SocketAddress> address = SocketAddress::parse(word);
      if (!address)
        return Status(Code::kInternal, "init: address \"" + word + "\" of rank " +
                                           std::to_string(rank) + " is none");
      // Loopback leads back to this machine.
      if (address->is_loopback() == same_machine(rank)) candidates.push_back(*address);
    }
    if (!candidates.empty()) return candidates;
    return Status(Code::kIo, "init: " + topology_.describe(rank) +
                                 " has no address that this rank could reach: " + text.value())
        .with_rank(rank);
  }

  rendezvous::Store& store_;
  const FabricOptions& options_;
  const PeerTable& met_;
  const Topology& topology_;
};

}  // namespace

Result<std::unique_ptr<TcpMesh>> meet_hosts(rendezvous::Store& store, const FabricOptions& options,
                                            const PeerTable& met, const Topology& topology,
                                            Events& events) {
  return HostRendezvous(store, options, met, topology).run(events);
}

std::vector<std::string> host_rendezvous_keys(int size) {
  std::vector<std::string> keys{kSecretKey, kTokenKey};
  for (int rank = 0; rank < size; ++rank) keys.push_back(address_key(rank));
  return keys;
}

}  // namespace hvd::transport
