// SPDX-License-Identifier: Apache-2.0
// Where a store listens, and how it is found behind one of several addresses.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "hostile.h"
#include "rendezvous/listen.h"
#include "rendezvous/store_protocol.h"
#include "rendezvous/tcp_store.h"
#include "unit/time_scale.h"

namespace hvd::rendezvous {
namespace {

bool has_ipv6() { return listen_at(SocketAddress::parse("::1", 0).value()).ok(); }

// A port of which nobody listens at the address.
Candidate nobody_at(const std::string& host) {
  const Listener gone = listen_at(SocketAddress::parse(host, 0).value()).value();
  return {host, gone.address.port()};
}

// Accepts, says `words` to everybody, and then no more.
class Stubborn {
 public:
  explicit Stubborn(std::string words, std::string host = "127.0.0.1")
      : listener_(listen_at(SocketAddress::parse(host, 0).value()).value()),
        words_(std::move(words)) {
    thread_ = std::thread([this] { run(); });
  }
  ~Stubborn() {
    stopping_ = true;
    thread_.join();
  }
  Candidate candidate() const { return {listener_.address.host(), listener_.address.port()}; }

 private:
  void run() {
    std::vector<Fd> held;
    while (!stopping_) {
      Fd socket(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket) {
        std::this_thread::sleep_for(1ms);
        continue;
      }
      send_text(socket, words_);
      held.push_back(std::move(socket));
    }
  }
  const Listener listener_;
  const std::string words_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// The addresses at which this machine listens with the port.
std::set<std::string> listening_at(uint16_t port) {
  std::set<std::string> found;
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    unsigned address = 0, local_port = 0, state = 0, remote = 0, remote_port = 0, number = 0;
    if (std::sscanf(line.c_str(), " %u: %x:%x %x:%x %x", &number, &address, &local_port, &remote,
                    &remote_port, &state) != 6)
      continue;
    if (state != 10 || local_port != port) continue;
    sockaddr_in entry{};
    entry.sin_family = AF_INET;
    entry.sin_addr.s_addr = address;
    found.insert(SocketAddress::of(reinterpret_cast<const sockaddr*>(&entry), sizeof entry).host());
  }
  return found;
}

TEST(Candidates, TheRightServerIsFoundAmongWrongOnes) {
  const TcpUrl job = fresh_tcp_url(), other = {fresh_tcp_url().candidates, "other"};
  const auto server = TcpStore::open(job, secret_settings(0, 2, now() + 10s)).value();
  const auto others = TcpStore::open(other, secret_settings(0, 2, now() + 10s)).value();
  const Stubborn silent(""), ssh("SSH-2.0-OpenSSH_9.2p1\r\n"),
      web("HTTP/1.1 400 Bad Request\r\n\r\n");
  TcpUrl url{{nobody_at("127.0.0.1"), silent.candidate(), ssh.candidate(), web.candidate(),
              other.candidates[0]},
             "job"};
  url.candidates.push_back(job.candidates[0]);
  const Time start = now();
  const auto store = TcpStore::open(url, secret_settings(1, 2, now() + 10s));
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_LT(now() - start, hvd::testing::scaled(4s));  // a wrong one may take 5 s
  EXPECT_TRUE(store.value()->set("key", "x").ok());
  EXPECT_TRUE(server->get("key", now() + 10s).ok());
}

TEST(Candidates, AnAddressThatSwallowsEverythingHoldsNobodyUp) {
  TcpUrl url = fresh_tcp_url();
  const auto server = TcpStore::open(url, secret_settings(0, 2, now() + 10s)).value();
  // reserved for documentation
  url.candidates.insert(url.candidates.begin(), Candidate{"203.0.113.1", 7777});
  const Time start = now();
  EXPECT_TRUE(TcpStore::open(url, secret_settings(1, 2, now() + 10s)).ok());
  EXPECT_LT(now() - start, hvd::testing::scaled(4s));
}

TEST(Candidates, TheDeadlineTellsHowEachAddressWent) {
  const TcpUrl running = fresh_tcp_url();
  const auto server = TcpStore::open(running, secret_settings(0, 2, now() + 10s, 'b')).value();
  const Stubborn silent(""), ssh("SSH-2.0-OpenSSH_9.2p1\r\n");
  const TcpUrl url{
      {nobody_at("127.0.0.1"), silent.candidate(), ssh.candidate(), running.candidates[0]}, "job"};
  const Time start = now();
  const Status status = TcpStore::open(url, secret_settings(1, 2, start + 6s)).status();
  EXPECT_LT(now() - start, hvd::testing::scaled(10s));
  EXPECT_EQ(status.code(), Code::kTimeout);
  const std::string& text = status.message();
  EXPECT_EQ(text.find("store " + url.text() + ": no server in "), 0u) << text;
  EXPECT_NE(text.find(url.candidates[0].text() + ": connect: Connection refused (111); "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(url.candidates[1].text() + ": no answer"), std::string::npos) << text;
  for (const size_t wrong : {2u, 3u}) {
    EXPECT_NE(text.find(url.candidates[wrong].text() +
                        ": did not prove that it knows the secret of job \"job\" ("),
              std::string::npos)
        << text;
  }
  EXPECT_LT(text.size(), 1008u);
}

TEST(Candidates, ANameThatNobodyKnowsIsNamedAtTheDeadline) {
  const TcpUrl url{{{"no-such-host.invalid", 7777}}, "job"};
  const Status status = TcpStore::open(url, secret_settings(1, 2, now() + 50ms)).status();
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_NE(status.message().find("host \"no-such-host.invalid\": "), std::string::npos)
      << status.message();
}

TEST(Candidates, Ipv6Loopback) {
  if (!has_ipv6()) GTEST_SKIP() << "this machine has no IPv6";
  const TcpUrl url{{nobody_at("::1")}, "job"};
  EXPECT_EQ(url.text().find("tcp://[::1]:"), 0u);
  const auto server = TcpStore::open(url, secret_settings(0, 2, now() + 10s));
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_TRUE(TcpStore::open(url, secret_settings(1, 2, now() + 10s)).ok());
}

TEST(Candidates, S6_TheServerListensAtItsOwnNamedAddressesOnly) {
  TcpUrl url = fresh_tcp_url();
  const uint16_t port = url.candidates[0].port;
  url.candidates.push_back({"127.77.0.1", port});
  url.candidates.push_back({"203.0.113.1", port});  // not of this machine
  const auto server = TcpStore::open(url, secret_settings(0, 2, now() + 10s));
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_EQ(listening_at(port), (std::set<std::string>{url.candidates[0].host, "127.77.0.1"}));
}

TEST(Candidates, Rank0WithoutAnyOfTheAddressesSaysSo) {
  const TcpUrl url{{{"203.0.113.1", 7777}, {"203.0.113.2", 7777}}, "job"};
  const Time start = now();
  const Status status = TcpStore::open(url, secret_settings(0, 2, now() + 10s)).status();
  EXPECT_LT(now() - start, hvd::testing::scaled(5s));
  EXPECT_EQ(status.message(), "store " + url.text() +
                                  ": this machine, which is to serve the store, has no address of "
                                  "203.0.113.1, 203.0.113.2");
}

// S6: what leads to loopback on this machine leads elsewhere on the others.
TEST(Candidates, S6_ANameThatMeansLoopbackHereIsServedAtTheInterfaces) {
  const auto own = addresses_of("");
  if (!own.ok()) GTEST_SKIP() << own.status().message();
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  for (const std::string& name :
       {std::string(host), std::string("ip6-localhost"), std::string("localhost.localdomain")}) {
    const auto meant = resolve(name, 7777);
    const auto loops = [](const SocketAddress& address) { return address.is_loopback(); };
    if (!meant.ok() || !std::all_of(meant.value().begin(), meant.value().end(), loops)) continue;
    const TcpUrl url{{{name, 7777}}, "job"};
    EXPECT_EQ(places_to_listen(url, false, "").value(), meant.value());
    const std::vector<SocketAddress> wide = places_to_listen(url, true, "").value();
    EXPECT_EQ(wide.size(), meant.value().size() + own.value().size());
    for (const SocketAddress& place : wide) EXPECT_EQ(place.port(), 7777);
    EXPECT_EQ(places_to_listen(url, true, "no-such-interface").status().code(),
              Code::kInvalidArgument);
    EXPECT_EQ(places_to_listen({{{"localhost", 7777}}, "job"}, true, "").value().size(), 1u)
        << "means loopback everywhere";
    return;
  }
  GTEST_SKIP() << "no name here leads to loopback only";
}

TEST(Candidates, S6_WithoutASecretOnlyLoopback) {
  for (const int rank : {0, 1, -1}) {
    const TcpUrl url{{{"127.0.0.1", 7777}, {"203.0.113.1", 7777}}, "job"};
    const Time start = now();
    const Status status = TcpStore::open(url, settings_of(rank, 2, start + 20s)).status();
    EXPECT_LT(now() - start, hvd::testing::scaled(5s));
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(
        status.message().find(
            ": others can reach 203.0.113.1:7777, and no secret is given; set HOROVOD_SECRET_FILE"),
        std::string::npos)
        << status.message();
    EXPECT_NE(status.message().find("HOROVOD_SECURITY=none"), std::string::npos);
  }
}

TEST(Candidates, LevelNoneIsAllowedWithOneLoudLine) {
  const auto own = addresses_of("");
  if (!own.ok()) GTEST_SKIP() << own.status().message();
  LineCounter log;
  StoreSettings settings = settings_of(0, 2, now() + 10s);
  settings.security = secure::Level::kNone;
  settings.log = log.logger();
  auto served = TcpStore::serve({own.value()[0].address}, "job", settings);
  ASSERT_TRUE(served.ok()) << served.status().message();
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_NE(log.lines()[0].find("HOROVOD_SECURITY=none: whoever can reach "), std::string::npos)
      << log.lines()[0];
  settings.rank = 1;
  const auto client = TcpStore::open(served.value().url, settings);
  EXPECT_TRUE(client.ok()) << client.status().message();
  EXPECT_EQ(log.lines().size(), 2u) << "a line for each rank";
}

TEST(Candidates, ASecretOnOneSideOnlyMeetsNobody) {
  const TcpUrl url = fresh_tcp_url();
  {
    const auto server = TcpStore::open(url, secret_settings(0, 2, now() + 10s)).value();
    EXPECT_EQ(TcpStore::open(url, settings_of(1, 2, now() + 100ms)).status().code(),
              Code::kTimeout);
  }
  const auto server = TcpStore::open(url, settings_of(0, 2, now() + 10s)).value();
  EXPECT_EQ(TcpStore::open(url, secret_settings(1, 2, now() + 100ms)).status().code(),
            Code::kTimeout);
  EXPECT_TRUE(server->set("key", "x").ok());
}

TEST(Candidates, ServesAtPortsOfItsOwnChoice) {
  const auto address = [](const char* host) { return SocketAddress::parse(host, 0).value(); };
  const auto served = TcpStore::serve({address("127.0.0.1"), address("127.0.0.2")}, "job",
                                      secret_settings(0, 2, now() + 10s));
  ASSERT_TRUE(served.ok()) << served.status().message();
  const TcpUrl url = std::get<TcpUrl>(parse_url(served.value().url.text()).value());
  ASSERT_EQ(url.candidates.size(), 2u);
  for (const Candidate& candidate : url.candidates) {
    EXPECT_EQ(listening_at(candidate.port), std::set<std::string>{candidate.host});
    ASSERT_TRUE(outcome_of(SocketAddress::parse(candidate.host, candidate.port).value(),
                           {"job", -1, keyring_of('a')})
                    .ok());
  }
  const auto client = TcpStore::open(url, secret_settings(1, 2, now() + 10s));
  ASSERT_TRUE(client.ok()) << client.status().message();
  EXPECT_FALSE(TcpStore::serve({}, "job", secret_settings(0, 2, now())).ok());
  EXPECT_FALSE(TcpStore::serve({SocketAddress::parse("203.0.113.1", 0).value()}, "job",
                               secret_settings(0, 2, now()))
                   .ok());
}

TEST(Candidates, AMachineThatIsGoneIsNoticed) {
  const Listener listener = listen_at(SocketAddress::parse("127.0.0.1", 0).value()).value();
  const Fd socket = raw_connection(listener.address);
  prepare_tcp(socket.get());
  int value = 0;
  socklen_t size = sizeof value;
  ASSERT_EQ(::getsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &value, &size), 0);
  EXPECT_EQ(value, 1);
  ASSERT_EQ(::getsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &size), 0);
  EXPECT_EQ(value, 30000);
  int idle = 0, interval = 0, count = 0;
  ::getsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, &size);
  ::getsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, &interval, &size);
  ::getsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, &count, &size);
  EXPECT_EQ(idle + interval * count, 30);
}

TEST(Candidates, ALauncherMayHoldThePort) {
  const TcpUrl url = fresh_tcp_url();
  const Fd held(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(held.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const SocketAddress address = address_of(url);
  ASSERT_EQ(::bind(held.get(), address.get(), address.size), 0);
  const auto server = TcpStore::open(url, secret_settings(0, 2, now() + 10s));
  EXPECT_TRUE(server.ok()) << server.status().message();
}

// S11: a server of a version that cannot serve this rank ends the wait at once.
TEST(Candidates, S11_AServerOfAnotherVersionIsNamed) {
  Bytes reply;
  put_reply(reply, {Code::kVersion, 0, "versions differ: this rank has x, the server y"});
  const Stubborn server{std::string(as_text(reply))};
  const TcpUrl url{{server.candidate()}, "job"};
  const Time start = now();
  const Status status = TcpStore::open(url, settings_of(1, 2, now() + 20s)).status();
  EXPECT_LT(now() - start, hvd::testing::scaled(5s));
  EXPECT_EQ(status.code(), Code::kVersion);
  EXPECT_EQ(status.message(), "store " + url.text() + ": " + url.candidates[0].text() +
                                  ": versions differ: this rank has x, the server y");
}

}  // namespace
}  // namespace hvd::rendezvous
