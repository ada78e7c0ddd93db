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
  const auto parse = [](std::string_view text) {
    return std::get<TcpUrl>(parse_url(text).value());
  };
  const TcpUrl url = parse("tcp://127.0.0.1:7777/train-1");
  ASSERT_EQ(url.candidates.size(), 1u);
  EXPECT_EQ(url.candidates[0].host, "127.0.0.1");
  EXPECT_EQ(url.candidates[0].port, 7777);
  EXPECT_EQ(url.job, "train-1");
  EXPECT_EQ(parse("tcp://[::1]:1/j").candidates[0].host, "::1");
  EXPECT_EQ(parse("tcp://node-7.example:65535/j").candidates[0].port, 65535);
}

TEST(Url, TcpWithSeveralAddressesAndBackToText) {
  const std::string text = "tcp://10.0.0.1:7777,[fd00::1]:7778,node-1:7779/job";
  const TcpUrl url = std::get<TcpUrl>(parse_url(text).value());
  ASSERT_EQ(url.candidates.size(), 3u);
  EXPECT_EQ(url.candidates[1].host, "fd00::1");
  EXPECT_EQ(url.candidates[1].port, 7778);
  EXPECT_EQ(url.candidates[2].text(), "node-1:7779");
  EXPECT_EQ(url.text(), text);
  std::string many = "tcp://h:1";
  for (size_t number = 1; number < kMostCandidates; ++number) many += ",h:1";
  EXPECT_TRUE(parse_url(many + "/j").ok());
  EXPECT_NE(message_of(many + ",h:1/j").find("more than 16 addresses"), std::string::npos);
}

TEST(Url, ARangeOfPortsIsShortForPeople) {
  const auto summary = [](std::string_view text) {
    return std::get<TcpUrl>(parse_url(text).value()).summary();
  };
  EXPECT_EQ(summary("tcp://h0:29501,h0:29502,h0:29503/j"), "tcp://h0:29501-29503/j");
  EXPECT_EQ(summary("tcp://[fd00::1]:1,[fd00::1]:2/j"), "tcp://[fd00::1]:1-2/j");
  EXPECT_EQ(summary("tcp://h0:1/j"), "tcp://h0:1/j");
  EXPECT_EQ(summary("tcp://h0:1,h1:1/j"), "tcp://h0:1,h1:1/j");
}

TEST(Url, Unix) {
  EXPECT_EQ(std::get<UnixUrl>(parse_url("unix://job-1.a").value()).name, "job-1.a");
  EXPECT_TRUE(parse_url("unix://" + std::string(80, 'a')).ok());
  message_of("unix://" + std::string(81, 'a'));
}

TEST(Url, NamesTheJob) {
  EXPECT_EQ(job_of(parse_url("tcp://h:1/train").value()), "train");
  EXPECT_EQ(job_of(parse_url("unix://local").value()), "local");
  EXPECT_EQ(job_of(parse_url("mem://m").value()), "m");
  EXPECT_EQ(job_of(parse_url("file:///tmp/x y").value()), "job");
}

TEST(Url, Memory) {
  EXPECT_EQ(std::get<MemoryUrl>(parse_url("mem://test_1.a").value()).name, "test_1.a");
}

TEST(Url, ErrorsShowTheTextAndWhatIsAllowed) {
  EXPECT_EQ(message_of("http://a"),
            "rendezvous \"http://a\": allowed: env:, file:///directory, tcp://host:port/job, "
            "unix://name or mem://name");
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
                                 "tcp://a:1,/job",
                                 "tcp://,a:1/job",
                                 "tcp://a:1,b/job",
                                 "tcp://[10.0.0.1x]:1/job",
                                 "tcp://[fd00:::1]:1/job",
                                 "tcp://fd00::1:1/job",
                                 "tcp://999.0.0.1:1/job",
                                 "tcp://127.1:1/job",
                                 "tcp://0.0.0.0:1/job",
                                 "tcp://[::]:1/job",
                                 "unix://",
                                 "unix://a/b",
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
