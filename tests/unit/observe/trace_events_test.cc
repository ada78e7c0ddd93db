// SPDX-License-Identifier: Apache-2.0
#include "observe/trace_events.h"

#include <gtest/gtest.h>

#include "base/dtype.h"
#include "base/op_kind.h"
#include "base/status.h"
#include "observe/timeline.h"

namespace hvd::observe {
namespace {

using engine::FlightRecorder;
using engine::RecordTimes;

constexpr int64_t kStart = 1'000'000'000;

TraceHead head(bool mark_cycles = false) {
  TraceHead head;
  head.rank = 2;
  head.size = 4;
  head.host = "node\"1";
  head.start = kStart;
  head.clock = {true, 5, 7};
  head.mark_cycles = mark_cycles;
  return head;
}

// A sum of 2 x 3 floats that was submitted at 10 us, agreed on at 20, begun at 30 and ended at 40.
FlightRecorder::Entry sum_of(const std::string& name) {
  FlightRecorder::Entry entry;
  entry.name = name;
  entry.operation.use = 9;
  entry.operation.kind = static_cast<uint8_t>(OpKind::kAllreduce);
  entry.operation.op = static_cast<uint8_t>(ReduceOp::kSum);
  entry.operation.dtype = static_cast<uint8_t>(DType::kFloat32);
  entry.operation.tensors = 1;
  entry.operation.ndim = 2;
  entry.operation.shape[0] = 2;
  entry.operation.shape[1] = 3;
  entry.operation.bytes = 24;
  entry.operation.spread = 4;
  entry.operation.group = 3;
  entry.group.agreed = entry.group.begun = 1;
  entry.group.operations = 2;
  entry.group.bytes = 48;
  return entry;
}

RecordTimes times_at(int64_t later = 0) {
  RecordTimes times;
  times.submitted = kStart + later + 10'000;
  times.agreed = kStart + later + 20'000;
  times.begun = kStart + later + 30'000;
  times.ended = kStart + later + 40'000;
  times.waited = 1'000;
  times.moved = 2'000;
  times.reduced = 3'000;
  times.copied = 4'000;
  return times;
}

std::vector<std::string> lines(const Elements& elements) {
  std::vector<std::string> out;
  for (size_t i = 0; i < elements.count(); ++i) out.emplace_back(elements.at(i));
  return out;
}

TEST(TraceEvents, SayWhoWroteTheFileAndByWhichClock) {
  Elements out;
  TraceEvents(head()).begin(&out);
  EXPECT_EQ(
      lines(out)[0],
      R"({"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"rank 2 on node\"1",)"
      R"("start_time_since_epoch_in_micros":0,"start_monotonic_ns":1000000000,"rank":2,"size":4,)"
      R"("host":"node\"1","process_id":0,"clock_offset_ns":5,"clock_error_ns":7}})");
}

TEST(TraceEvents, AreHorovodsInHorovodsOrder) {
  TraceEvents events(head(true));
  negotiation::Arrivals::Use arrivals;
  arrivals.number = 9;
  arrivals.since = Time{Duration(kStart + 8'000)};
  arrivals.after = {0, negotiation::Arrivals::kNotYet, 4};
  Elements out;
  events.add(sum_of("grad"), times_at(), &arrivals, 2, &out);
  const std::vector<std::string> expected = {
      R"({"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"grad"}})",
      R"({"ph":"M","name":"process_sort_index","pid":1,"tid":0,"args":{"sort_index":1}})",
      R"({"ph":"i","name":"CYCLE_START","ts":20.000,"pid":0,"tid":0,"s":"g"})",
      R"({"ph":"B","name":"NEGOTIATE_ALLREDUCE","ts":8.000,"pid":1,"tid":0})",
      R"({"ph":"X","name":"0","ts":8.000,"pid":1,"tid":0,"dur":0})",
      R"({"ph":"X","name":"2","ts":12.000,"pid":1,"tid":0,"dur":0})",
      R"({"ph":"E","ts":20.000,"pid":1,"tid":0,"args":{"process_set":0,"use":9,)"
      R"("last_rank":2,"spread_us":4.000}})",
      R"({"ph":"B","name":"ALLREDUCE","ts":20.000,"pid":1,"tid":0})",
      R"({"ph":"B","name":"QUEUE","ts":20.000,"pid":1,"tid":0})",
      R"({"ph":"E","ts":30.000,"pid":1,"tid":0})",
      R"({"ph":"B","name":"HVD_ALLREDUCE","ts":30.000,"pid":1,"tid":0})",
      R"({"ph":"E","ts":40.000,"pid":1,"tid":0,"args":{"waited_us":1.000,"moved_us":2.000,)"
      R"("reduced_us":3.000,"copied_us":4.000,"group":3,"group_operations":2,"group_bytes":48}})",
      R"({"ph":"E","ts":40.000,"pid":1,"tid":0,"args":{"dtype":"float32","shape":"[2, 3]",)"
      R"("bytes":24,"tensors":1}})",
  };
  EXPECT_EQ(lines(out), expected);
}

TEST(TraceEvents, TellOfAnOperationThatFailed) {
  TraceEvents events(head());
  FlightRecorder::Entry entry = sum_of("grad");
  entry.operation.use = 0;
  entry.operation.group = 0;
  entry.group = {};
  entry.operation.status = static_cast<int8_t>(Code::kTimeout);
  RecordTimes times = times_at();
  times.agreed = times.begun = 0;
  Elements out;
  events.add(entry, times, nullptr, -1, &out);
  const std::vector<std::string> found = lines(out);
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found[3], R"({"ph":"E","ts":40.000,"pid":1,"tid":0,"args":{"process_set":0,)"
                      R"("status":"HVD_ERR_TIMEOUT"}})");
}

TEST(TraceEvents, OfAnOperationThatWentWithItsMessagesHaveNoActivity) {
  TraceEvents events(head());
  FlightRecorder::Entry entry = sum_of("small");
  entry.group = {};
  RecordTimes times = times_at();
  times.agreed = times.begun = times.ended;
  Elements out;
  events.add(entry, times, nullptr, -1, &out);
  const std::vector<std::string> found = lines(out);
  ASSERT_EQ(found.size(), 6U);
  EXPECT_EQ(found[4], R"({"ph":"B","name":"ALLREDUCE","ts":40.000,"pid":1,"tid":0})");
}

TEST(TraceEvents, KnowAdasumAndBarriers) {
  TraceEvents events(head());
  FlightRecorder::Entry entry = sum_of("a");
  entry.operation.op = static_cast<uint8_t>(ReduceOp::kAdasum);
  Elements out;
  events.add(entry, times_at(), nullptr, -1, &out);
  std::string all = out.text();
  EXPECT_NE(all.find("\"NEGOTIATE_ADASUM\""), std::string::npos) << all;
  EXPECT_NE(all.find("\"HVD_ADASUM_ALLREDUCE\""), std::string::npos) << all;
  out = {};
  entry.name = "b";
  entry.operation.kind = static_cast<uint8_t>(OpKind::kBarrier);
  entry.operation.tensors = 0;
  events.add(entry, times_at(), nullptr, -1, &out);
  all = out.text();
  EXPECT_NE(all.find("\"NEGOTIATE_BARRIER\""), std::string::npos) << all;
  EXPECT_EQ(all.find("\"BARRIER\""), std::string::npos) << all;
}

TEST(TraceEvents, OfOneTensorShareARowUnlessTheyOverlap) {
  TraceEvents events(head());
  Elements out;
  events.add(sum_of("grad"), times_at(), nullptr, -1, &out);
  events.add(sum_of("grad"), times_at(29'990), nullptr, -1, &out);  // begins 10 ns early
  EXPECT_NE(out.text().find(R"("name":"NEGOTIATE_ALLREDUCE","ts":40.000,"pid":1,)"),
            std::string::npos)
      << out.text();
  EXPECT_EQ(out.text().find("\"pid\":2"), std::string::npos);
  RecordTimes long_one = times_at();
  long_one.ended = kStart + 10'000'000;
  events.add(sum_of("other"), long_one, nullptr, -1, &out);
  EXPECT_EQ(out.text().find("\"pid\":3"), std::string::npos);
  events.add(sum_of("other"), times_at(50'000), nullptr, -1, &out);
  EXPECT_NE(out.text().find("\"pid\":3"), std::string::npos);
}

TEST(TraceEvents, AreNeverLongerThanAPageHasRoomFor) {
  TraceEvents events(head());
  FlightRecorder::Entry entry = sum_of(std::string(engine::LabelRecord().name.size(), '\x01'));
  entry.set = INT32_MIN;
  entry.operation.ndim = 255;
  for (int64_t& dim : entry.operation.shape) dim = INT64_MIN;
  entry.operation.use = entry.operation.group = entry.operation.bytes = UINT64_MAX;
  entry.group.bytes = entry.group.operations = UINT64_MAX;
  RecordTimes times = times_at(INT64_MAX / 2);
  times.waited = times.moved = times.reduced = times.copied = INT64_MIN;
  Elements out;
  events.add(entry, times, nullptr, INT32_MIN, &out);
  for (size_t i = 0; i < out.count(); ++i) EXPECT_LT(out.at(i).size(), 1500U) << out.at(i);
  EXPECT_NE(out.text().find(", ...]"), std::string::npos) << out.text();
}

TEST(Timeline, NamesTheFilesOfRanksAfterRank0s) {
  EXPECT_EQ(file_of_rank("a/run.json", 0), "a/run.json");
  EXPECT_EQ(file_of_rank("a/run.json", 3), "a/run.rank3.json");
  EXPECT_EQ(file_of_rank("a.b/run", 3), "a.b/run.rank3");
  EXPECT_EQ(file_of_rank("run.tar.gz", 1), "run.tar.rank1.gz");
  EXPECT_EQ(file_of_rank(".json", 1), ".json.rank1");
}

}  // namespace
}  // namespace hvd::observe
