// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/url.h"

#include <gtest/gtest.h>

namespace hvd::rendezvous {
namespace {

std::string message_of(std::string_view text) {
  const Result<Url> url = parse_url(text);
  EXPECT_EQ(url.status().code(), Code::kInvalidArgument) << text;
  return url.status().message();
}

TEST(Url, Environment) { EXPECT_TRUE(std::holds_alternative<EnvUrl>(parse_url("env:").value())); }

TEST(Url, File) {
  EXPECT_EQ(std::get<FileUrl>(parse_url("file:///tmp/job 1").value()).directory, "/tmp/job 1");
  EXPECT_EQ(std::get<FileUrl>(parse_url("file:///tmp/a%20b//").value()).directory, "/tmp/a%20b");
}

TEST(Url, Tcp) {
  const Url parsed = parse_url("tcp://127.0.0.1:7777/train-1").value();
  const TcpUrl& url = std::get<TcpUrl>(parsed);
  EXPECT_EQ(url.host, "127.0.0.1");
  EXPECT_EQ(url.port, 7777);
  EXPECT_EQ(url.job, "train-1");
  EXPECT_EQ(std::get<TcpUrl>(parse_url("tcp://[::1]:1/j").value()).host, "::1");
  EXPECT_EQ(std::get<TcpUrl>(parse_url("tcp://node-7.example:65535/j").value()).port, 65535);
}

TEST(Url, Memory) { EXPECT_EQ(std::get<MemoryUrl>(parse_url("mem://test_1.a").value()).name, "test_1.a"); }

TEST(Url, ErrorsShowTheTextAndWhatIsAllowed) {
  EXPECT_EQ(message_of("http://a"),
            "rendezvous \"http://a\": allowed: env:, file:///directory, tcp://host:port/job or mem://name");
  EXPECT_EQ(message_of("tcp://127.0.0.1:99999/job"),
            "rendezvous \"tcp://127.0.0.1:99999/job\": port is not an integer from 1 to 65535");
  EXPECT_LT(message_of(std::string(10000, '\x02')).size(), 300u);
}

TEST(Url, RefusesWhatIsNotComplete) {
  for (const std::string text : {"",
                                 "env",
                                 "env:x",
                                 "file:",
                                 "file://",
                                 "file://relative/path",
                                 "file:///",
                                 "file:////",
                                 "tcp://",
                                 "tcp:///job",
                                 "tcp://host/job",
                                 "tcp://host:/job",
                                 "tcp://host:0/job",
                                 "tcp://host:-1/job",
                                 "tcp://host:+1/job",
                                 "tcp://host:1x/job",
                                 "tcp://host: 1/job",
                                 "tcp://:1/job",
                                 "tcp://host:1",
                                 "tcp://host:1/",
                                 "tcp://host:1/a/b",
                                 "tcp://ho st:1/job",
                                 "tcp://::1:1/job",
                                 "tcp://[]:1/job",
                                 "tcp://user@host:1/job",
                                 "mem://",
                                 "mem://a/b",
                                 "mem://a b",
                                 "FILE:///tmp",
                                 " env:"}) {
    message_of(text);
  }
  message_of("mem://" + std::string(101, 'a'));
  message_of("tcp://h:1/" + std::string(101, 'a'));
  message_of("file:///" + std::string(4000, 'a'));
  message_of(std::string_view("file:///a\0b", 11));
}

}  // namespace
}  // namespace hvd::rendezvous
