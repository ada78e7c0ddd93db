// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace hvd {
namespace {

Environment environment(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(OptionTable, EveryRowIsComplete) {
  std::set<std::string> names;
  ASSERT_GT(option_count(), 0u);
  for (size_t index = 0; index < option_count(); ++index) {
    const std::string name = option_name(index);
    EXPECT_TRUE(names.insert(name).second) << name << " appears twice";
    EXPECT_EQ(find_option(name), index);
    EXPECT_GT(std::string(option_help(index)).size(), 20u) << name;
    const bool says_so = std::string(option_help(index)).find("at run time") != std::string::npos;
    EXPECT_EQ(says_so, changes_at_run_time(index)) << name;
  }
  EXPECT_EQ(option_name(option_count()), nullptr);
  EXPECT_EQ(option_default(option_count()), nullptr);
  EXPECT_EQ(option_help(option_count()), nullptr);
  EXPECT_FALSE(changes_at_run_time(option_count()));
  EXPECT_EQ(find_option("no_such_option"), std::nullopt);
}

TEST(OptionTable, EveryDefaultIsTheValueOfItsMemberAndIsAllowed) {
  for (size_t index = 0; index < option_count(); ++index) {
    Options options;
    const Result<std::string> value = options.get(option_name(index));
    ASSERT_TRUE(value.ok()) << option_name(index);
    EXPECT_EQ(value.value(), option_default(index)) << option_name(index);
    EXPECT_TRUE(options.set(option_name(index), option_default(index)).ok()) << option_name(index);
    EXPECT_EQ(options.get(option_name(index)).value(), option_default(index));
  }
}

bool is_free_text(const std::string& wanted) {
#define HVD_OPTION(name, type, default_value, allowed, when, help) \
  if (wanted == #name) return std::string(#allowed) == "any_text()";
#include "base/options.def"
  return false;
}

TEST(OptionTable, EveryRowButFreeTextRefusesGarbageAndKeepsItsValue) {
  for (size_t index = 0; index < option_count(); ++index) {
    const std::string name = option_name(index);
    if (is_free_text(name)) continue;
    for (const std::string bad :
         {"garbage", "", " 1", "1 ", "0x10", "1,5", "99999999999999999999999", "nan", "inf"}) {
      const bool could_be_a_plugin =
          std::all_of(bad.begin(), bad.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
      if (name == "cpu_operations" && could_be_a_plugin && !bad.empty()) continue;
      Options options;
      const Status status = options.set(name, bad);
      ASSERT_EQ(status.code(), Code::kInvalidArgument) << name << " accepts " << bad;
      EXPECT_NE(status.message().find('"' + name + '"'), std::string::npos) << status.message();
      EXPECT_NE(status.message().find('"' + bad + '"'), std::string::npos) << status.message();
      EXPECT_NE(status.message().find("allowed:"), std::string::npos) << status.message();
      EXPECT_EQ(options.get(name).value(), option_default(index));
    }
  }
}

TEST(Options, TheNameOfAPluginIsNoPath) {
  Options options;
  for (const char* const bad : {"../gloo", "a/b", ".", "a.so", ""}) {
    EXPECT_EQ(options.set("cpu_operations", bad).code(), Code::kInvalidArgument) << bad;
  }
  ASSERT_TRUE(options.set("cpu_operations", "My-Own_2").ok());
  EXPECT_EQ(options.cpu_operations, "my-own_2");
}

TEST(Options, ValuesReachTheirMembers) {
  Options options;
  ASSERT_TRUE(options.set("fusion_threshold", "0").ok());
  ASSERT_TRUE(options.set("cycle_time", "2.5").ok());
  ASSERT_TRUE(options.set("spin_us", "-1").ok());
  ASSERT_TRUE(options.set("log_level", "DEBUG").ok());
  ASSERT_TRUE(options.set("hostname", "a b").ok());
  ASSERT_TRUE(options.set("look_ahead", "off").ok());
  EXPECT_EQ(options.fusion_threshold, 0);
  EXPECT_EQ(options.cycle_time, 2.5);
  EXPECT_EQ(options.spin_us, -1);
  EXPECT_EQ(options.log_level, "debug");
  EXPECT_EQ(options.hostname, "a b");
  EXPECT_FALSE(options.look_ahead);
  EXPECT_EQ(options.get("cycle_time").value(), "2.5");
  EXPECT_EQ(options.get("look_ahead").value(), "0");
}

TEST(Options, RangesIncludeTheirBoundsAndNothingBeyond) {
  Options options;
  EXPECT_TRUE(options.set("eager_bytes", "0").ok());
  EXPECT_TRUE(options.set("eager_bytes", "8192").ok());
  EXPECT_EQ(
      options.set("eager_bytes", "8193").message(),
      "option \"eager_bytes\": value \"8193\" is not allowed; allowed: integers from -1 to 8192");
  EXPECT_FALSE(options.set("eager_bytes", "-2").ok());
  EXPECT_FALSE(options.set("eager_bytes", "1.0").ok());
  EXPECT_EQ(options.eager_bytes, 8192);
  EXPECT_FALSE(options.set("start_timeout", "0").ok());
  EXPECT_TRUE(options.set("start_timeout", "0.001").ok());
  EXPECT_TRUE(options.set("op_timeout", "1e3").ok());
  EXPECT_EQ(options.op_timeout, 1000);
  EXPECT_FALSE(options.set("op_timeout", "-0.1").ok());
  EXPECT_FALSE(options.set("log_level", "trace debug").ok());
  EXPECT_FALSE(options.set("hostname", std::string_view("a\0b", 3)).ok());
}

TEST(Options, BooleansAreReadAsHorovodUsersWriteThem) {
  const std::map<std::string, bool> spellings = {
      {"1", true},  {"0", false},   {"true", true}, {"False", false}, {"YES", true}, {"no", false},
      {"On", true}, {"oFF", false}, {"7", true},    {"-1", false},    {"00", false}};
  for (const auto& [text, value] : spellings) {
    Options options;
    options.stall_check_disable = !value;
    ASSERT_TRUE(options.set("stall_check_disable", text).ok()) << text;
    EXPECT_EQ(options.stall_check_disable, value) << text;
  }
}

TEST(Options, UnknownNamesAreNotFound) {
  Options options;
  EXPECT_EQ(options.set("fusion", "1").code(), Code::kNotFound);
  EXPECT_EQ(options.get("fusion").status().code(), Code::kNotFound);
  EXPECT_EQ(options.get("").status().message(), "option \"\" does not exist");
}

TEST(Options, LongAndBinaryValuesAreShownShortAndPrintable) {
  Options options;
  const std::string message = options.set("cycle_time", std::string(5000, '\x01')).message();
  EXPECT_LT(message.size(), 200u);
  for (const char c : message) EXPECT_TRUE(c >= ' ' && c <= '~');
}

TEST(OptionsFromEnvironment, EveryRowHasAVariable) {
  for (size_t index = 0; index < option_count(); ++index) {
    Options options;
    const std::string variable = option_variable(option_name(index));
    ASSERT_TRUE(options.load(environment({{variable, option_default(index)}})).ok()) << variable;
  }
  EXPECT_EQ(option_variable("cycle_time"), "HOROVOD_CYCLE_TIME");
}

TEST(OptionsFromEnvironment, SetsWhatIsPresent) {
  Options options;
  ASSERT_TRUE(options
                  .load(environment({{"HOROVOD_FUSION_THRESHOLD", "1048576"},
                                     {"HOROVOD_STALL_CHECK_DISABLE", "yes"},
                                     {"HOROVOD_CYCLE_TIME", ""},
                                     {"HOROVOD_NO_SUCH_THING", "garbage"}}))
                  .ok());
  EXPECT_EQ(options.fusion_threshold, 1048576);
  EXPECT_TRUE(options.stall_check_disable);
  EXPECT_EQ(options.cycle_time, 0);
}

TEST(OptionsFromEnvironment, ErrorsNameTheVariable) {
  Options options;
  const Status status = options.load(environment({{"HOROVOD_CYCLE_TIME", "fast"}}));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "HOROVOD_CYCLE_TIME: value \"fast\" is not allowed; allowed: numbers from 0 to 3600000");
}

TEST(OptionsFromEnvironment, TheProcessEnvironmentIsRead) {
  ASSERT_EQ(::setenv("HOROVOD_SPIN_US", "17", 1), 0);
  Options options;
  EXPECT_TRUE(options.load(process_environment()).ok());
  ::unsetenv("HOROVOD_SPIN_US");
  EXPECT_EQ(options.spin_us, 17);
}

}  // namespace
}  // namespace hvd
