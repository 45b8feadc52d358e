// Gathering the spans of all ranks into one file.
#include "libtrain/engine/run_trace.h"

#include "libtrain/base/atomic_stream.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/plan/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <exception>

namespace trainyard::engine {

namespace {

constexpr std::int64_t block_bytes = std::int64_t{1} << 20;  // most bytes that rank 0 receives at one time

// What rank 0 has to know about each rank.
std::string facts_of(const base::TraceRecorder& recorder, std::size_t bytes) {
  std::int64_t spans = 0;
  std::uint64_t left_out = 0;
  for (const auto& t : recorder.threads()) spans += static_cast<std::int64_t>(t.spans.size()), left_out += t.left_out;
  return nlohmann::json{
      {"host", base::text_of_path(base::host_name())}, {"spans", spans}, {"left_out", left_out}, {"bytes", bytes}}
      .dump();
}

}  // namespace

RunTrace::RunTrace(const RunContext& run, tensor::Exec& communication, std::int64_t completed_steps)
    : run_(run), communication_(communication), steps_(trace_steps(run.setup.config.trace_steps)),
      recorder_(spans_of_a_thread(run.world.size), "compute"),
      clocks_(comm::clock_offsets(*run.world.control, communication, base::real_clock())),
      first_step_(completed_steps + 1), last_step_(completed_steps) {
  if (steps_.has(first_step_)) recorder_.resume();
}

void RunTrace::begin_step(std::int64_t step) {
  last_step_ = step;
  if (steps_.has(step)) recorder_.resume();
  else recorder_.pause();
}

void RunTrace::to_rank_zero(const std::string& mine, const std::vector<std::int64_t>& bytes, const Take& take) {
  using Kind = comm::Transfer::Kind;
  auto& control = *run_.world.control;
  std::vector<char> memory(control.size() == 1 ? 0 : base::size(block_bytes));
  for (int from = 1; from < control.size(); ++from) {
    if (control.rank() == 0) take(",\n");
    const auto all = base::at(bytes, from);
    for (std::int64_t at = 0; at < all; at += block_bytes) {
      const auto n = std::min(block_bytes, all - at);
      const base::View view(memory.data(), base::DType::u8, {n});
      if (control.rank() == from) {
        std::copy_n(mine.begin() + at, n, memory.begin());
        control.exchange(communication_, std::array{comm::Transfer{Kind::send, 0, view}});
      } else if (control.rank() == 0) {
        control.exchange(communication_, std::array{comm::Transfer{Kind::receive, from, view}});
      } else {
        control.exchange(communication_, {});
      }
      communication_.synchronize();
      if (control.rank() == 0) take({memory.data(), base::size(n)});
    }
  }
}

// On rank 0. If the file cannot be written, it still receives what the other ranks send.
void RunTrace::write_whole(const std::string& head, const std::string& mine, const std::vector<std::int64_t>& bytes) {
  const auto& path = run_.trace;
  std::exception_ptr failure;
  bool heard = false;
  const auto hear = [&](const Take& take) {
    heard = true;
    to_rank_zero({}, bytes, take);
  };
  try {
    base::require_own(path, own_traces());
    base::write_file(
        path,
        [&](const base::Sink& sink) {
          sink(head);
          sink(mine);
          hear([&](std::string_view text) {
            try {
              if (!failure) sink(text);
            } catch (const base::Error&) {
              failure = std::current_exception();
            }
          });
          if (failure) std::rethrow_exception(failure);
          sink(trace_tail);
        },
        base::Existing::replace);
  } catch (const base::PeerError&) {
    throw;
  } catch (const base::Error&) {
    failure = std::current_exception();
  }
  if (!heard) hear([](std::string_view) {});
  if (failure) std::rethrow_exception(failure);
}

nlohmann::ordered_json RunTrace::about() const {
  const auto& p = run_.setup.plan;
  const auto batch = p.batch();
  int chunks = 1;
  for (const auto& a : plan::actions(p, run_.world.rank)) chunks = std::max(chunks, a.chunk + 1);
  const auto axis = [&](plan::Axis a) { return p.topology.size(a); };
  const bool host_only = run_.setup.step.device.kind == base::DeviceKind::cuda;
  nlohmann::ordered_json out{
      {"model", base::one_line(p.model.name)},
      {"device", host_only ? "cuda" : "cpu"},
      {"spans", host_only ? "times on the host, which queues work for the device; not when the device did it"
                          : "what was done, when"},
      {"first_step", first_step_},
      {"last_step", last_step_},
      {"trace_steps", run_.setup.config.trace_steps},
      {"schedule", plan::schedule_text(p)},
      {"chunks", chunks},
      {"ranks", p.topology.world()},
      {"stages", axis(plan::Axis::pipe)},
      {"data", axis(plan::Axis::data)},
      {"tensor", axis(plan::Axis::tensor)},
      {"zero", p.zero},
      {"micro_batches", batch.micros()},
      {"micro_batch", p.micro_batch},
      {"global_batch", p.global_batch},
      {"sequence", p.sequence},
      {"fold", batch.local_accumulation},
      {"rounds", batch.accumulation_steps()},
      {"spans_of_a_thread", spans_of_a_thread(run_.world.size)}};
  if (batch.ramp.grows())
    out["batch_ramp"] = plan::global_batch_text({p.global_batch, p.batch_ramp});  // above: the largest step
  return out;
}

void RunTrace::report(std::int64_t spans, std::int64_t left_out) const {
  if (run_.listener.on_note)
    run_.listener.on_note(fmt::format("trace {}: {} of {}", run_.trace, base::counted(spans, "span"),
                                      base::counted(run_.world.size, "rank")));
  if (left_out > 0)
    base::log_warning(
        "the trace holds the first {} spans of a thread, and {} that came later are left out: $trace-steps traces "
        "other steps",
        base::count_text(static_cast<std::int64_t>(spans_of_a_thread(run_.world.size))), base::count_text(left_out));
}

void RunTrace::write() {
  recorder_.pause();
  auto& control = *run_.world.control;
  const auto later = comm::clock_offsets(control, communication_, base::real_clock());
  const auto me = base::size(run_.world.rank);
  const auto text = trace_events(recorder_.threads(), run_.world.rank, rank_name(run_.world.topology, run_.world.rank),
                                 {clocks_[me], later[me]}, clocks_[0].at);
  auto head = about();
  auto ranks = nlohmann::ordered_json::array();
  std::vector<std::int64_t> bytes;
  std::int64_t spans = 0, left_out = 0;
  const auto all = comm::texts_of_all(control, communication_, facts_of(recorder_, text.size()));
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto facts = nlohmann::json::parse(all[r]);
    const auto clock = [&](const comm::ClockOffset& c) {
      return nlohmann::ordered_json{
          {"at_seconds", c.at}, {"offset_seconds", c.offset}, {"uncertainty_seconds", c.uncertainty}};
    };
    ranks.push_back({{"host", facts["host"]},
                     {"spans", facts["spans"]},
                     {"left_out", facts["left_out"]},
                     {"clock", {clock(clocks_[r]), clock(later[r])}}});
    bytes.push_back(facts["bytes"]);
    spans += facts["spans"].get<std::int64_t>(), left_out += facts["left_out"].get<std::int64_t>();
  }
  head["of_ranks"] = ranks;
  // An error on rank 0 alone would leave the other ranks waiting for it.
  std::exception_ptr failure;
  try {
    if (run_.world.rank == 0) write_whole(trace_head(head), text, bytes);
    else to_rank_zero(text, bytes, {});
  } catch (const base::PeerError&) {
    throw;
  } catch (const base::Error&) {
    failure = std::current_exception();
  }
  on_every_rank(run_.world, communication_, [&] {
    if (failure) std::rethrow_exception(failure);
  });
  if (run_.world.rank == 0) report(spans, left_out);
}

}  // namespace trainyard::engine
