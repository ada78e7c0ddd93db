// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/slurm_nodelist.h"

#include <gtest/gtest.h>

namespace hvd::rendezvous {
namespace {

std::string joined(std::string_view text, size_t most = 100) {
  const Result<std::vector<std::string>> hosts = expand_nodelist(text, most);
  if (!hosts.ok()) return "error";
  std::string all;
  for (const std::string& host : hosts.value()) all += (all.empty() ? "" : " ") + host;
  return all;
}

TEST(SlurmNodelist, ExpandsAsSlurmWritesIt) {
  const struct {
    const char* text;
    const char* hosts;
  } table[] = {
      {"vm", "vm"},
      {"node1,node2", "node1 node2"},
      {"node[1-3]", "node1 node2 node3"},
      {"node[01-03,7],gpu-[1-2]x[a]", "node01 node02 node03 node7 gpu-1xa gpu-2xa"},
      {"node[08-11]", "node08 node09 node10 node11"},
      {"rack[1-2]n[01-02].example.org",
       "rack1n01.example.org rack1n02.example.org rack2n01.example.org rack2n02.example.org"},
      {"n[098-101]", "n098 n099 n100 n101"},
      {"[1-2]", "1 2"},
      {"a[1,3,5-6]b,c_d", "a1b a3b a5b a6b c_d"},
  };
  for (const auto& row : table) EXPECT_EQ(joined(row.text), row.hosts) << row.text;
}

TEST(SlurmNodelist, WhatIsNoListIsRefused) {
  for (const char* text : {"", ",", "a,", "a,,b", "node[", "node]", "node[]", "node[1-]",
                           "node[-1]", "node[3-1]", "node[1,]", "node[,1]", "node[1-2", "a b",
                           "node[[1]]", "node[1;2]", "(null)", "node[1-9999999999]", "n[a-c]"}) {
    EXPECT_EQ(joined(text), "error") << text;
  }
}

TEST(SlurmNodelist, TheNumberOfHostsIsLimited) {
  EXPECT_EQ(joined("n[1-4]", 4), "n1 n2 n3 n4");
  EXPECT_EQ(joined("n[1-5]", 4), "error");
  EXPECT_EQ(joined("n[1-2]x[1-3]", 4), "error");
  EXPECT_EQ(joined("a,b,c[1-3]", 4), "error");
  EXPECT_EQ(expand_nodelist("n[0-999999999]", 1000).status().message(),
            "Slurm list \"n[0-999999999]\": is not a list of at most 1000 hosts like "
            "\"node[01-03,7],login\"");
}

TEST(SlurmNodelist, TasksPerNode) {
  EXPECT_EQ(tasks_on_node("2", 0).value(), 2);
  EXPECT_EQ(tasks_on_node("2(x3),1", 2).value(), 2);
  EXPECT_EQ(tasks_on_node("2(x3),1", 3).value(), 1);
  EXPECT_EQ(tasks_on_node("1,12(x2),3(x1)", 2).value(), 12);
  for (const char* text : {"", "x", "2(x3", "2(3)", "2(x)", "2()", "-1", "2(x3),1"}) {
    EXPECT_EQ(tasks_on_node(text, 4).status().code(), Code::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace hvd::rendezvous
