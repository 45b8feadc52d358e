// A pipeline without a model: stages send vectors in the order of 1F1B (Narayanan et al. 2021). What arrives shows
// which way it took: on host memory every stage adds one to it. On a device a stage only copies it.
#pragma once

#include "libtrain/comm/neighbours.h"
#include "libtrain/tensor/device_buffer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace trainyard::comm::pipeline {

using base::View;

inline std::size_t z(std::int64_t i) { return static_cast<std::size_t>(i); }

// Sleeps of random length up to 3 ms, different for each seed.
inline std::function<void()> random_delays(int seed) {
  return [random = std::mt19937(static_cast<unsigned>(seed))]() mutable {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
  };
}

// Two buffers of 64-bit integers for messages of one kind, and the events after which each may be used again.
class Slots {
 public:
  Slots(const tensor::Exec& compute, std::int64_t elements) {
    for (int i = 0; i < 2; ++i) {
      if (compute.on_gpu()) device_.emplace_back(compute.device().index, 8 * elements, "reserving a message");
      else host_.emplace_back(z(elements), -7);
      views_.emplace_back(compute.on_gpu() ? device_.back().data() : host_.back().data(), base::DType::i64,
                          std::initializer_list<std::int64_t>{elements}, compute.device());
    }
  }
  View view(int m) const { return views_[z(m % 2)]; }
  tensor::Event& free(int m) { return free_[m % 2]; }

 private:
  std::vector<std::vector<std::int64_t>> host_;
  std::vector<tensor::DeviceBuffer> device_;
  std::vector<View> views_;
  tensor::Event free_[2];
};

struct Shape {
  int stages = 1, stage = 0, micro_batches = 3;
  int chunks = 1;  // virtual stages: each micro-batch passes every stage this often, in a ring
  std::int64_t elements = 1000;
  std::int64_t first_value = 0;  // of this replica
};

enum class Receives { when_needed, ahead };

// The messages of one direction: forward or backward.
class Direction {
 public:
  using Call = std::function<tensor::Event(View, const tensor::Event&)>;
  Direction(tensor::Exec& compute, const Shape& shape, Receives receives, Call receive, Call send)
      : compute_(compute), shape_(shape), receives_(receives), receive_(std::move(receive)), send_(std::move(send)),
        in_(compute, shape.elements), out_(compute, shape.elements) {
    // Views need host memory that exists until the end.
    sources_.resize(z(shape.micro_batches)), results_.resize(z(shape.micro_batches));
  }
  std::vector<std::vector<std::int64_t>>& results() { return results_; }

  // Pass n of this direction. `begins` and `ends` tell whether the micro-batch begins or ends at this stage.
  void pass(int n, int received_before, int to_receive, int micro_batch, bool begins, bool ends, std::int64_t value,
            const std::function<void()>& delay) {
    const auto done_with = [&] { return compute_.record(); };
    if (!begins) {
      const int last = std::min(to_receive - 1, received_before + (receives_ == Receives::ahead ? 1 : 0));
      for (; asked_ <= last; ++asked_) arrived_[asked_ % 2] = receive_(in_.view(asked_), in_.free(asked_));
      compute_.wait(arrived_[received_before % 2]);
    } else {
      sources_[z(micro_batch)].assign(z(shape_.elements), value);
    }
    compute_.wait(out_.free(n));
    const auto from = begins ? View::of(sources_[z(micro_batch)].data(), {shape_.elements}) : in_.view(received_before);
    const auto to = out_.view(n);
    compute_.run([&delay] { delay(); });
    tensor::copy(compute_, from, to);
    if (!compute_.on_gpu())
      compute_.run([to] {
        for (std::int64_t i = 0; i < to.count(); ++i) to.ptr<std::int64_t>()[i] += 1;
      });
    if (ends) {
      results_[z(micro_batch)].resize(z(shape_.elements));
      tensor::copy(compute_, to, View::of(results_[z(micro_batch)].data(), {shape_.elements}));
    }
    const auto done = done_with();
    if (!begins) in_.free(received_before) = done;
    out_.free(n) = ends ? done : send_(to, done);
  }
  void finish() {
    for (int i = 0; i < 2; ++i) out_.free(i).wait();
  }

 private:
  tensor::Exec& compute_;
  Shape shape_;
  Receives receives_;
  Call receive_, send_;
  Slots in_, out_;
  tensor::Event arrived_[2];
  int asked_ = 0;
  std::vector<std::vector<std::int64_t>> sources_, results_;
};

// Runs all micro-batches forward and backward, and checks what the first and the last stage hold at the end.
inline void run(Neighbours& neighbours, tensor::Exec& compute, const Shape& shape, Receives receives,
                const std::function<void()>& delay) {
  Direction forward(
      compute, shape, receives, [&](View v, const tensor::Event& e) { return neighbours.receive_activations(v, e); },
      [&](View v, const tensor::Event& e) { return neighbours.send_activations(v, e); });
  Direction backward(
      compute, shape, receives, [&](View v, const tensor::Event& e) { return neighbours.receive_gradients(v, e); },
      [&](View v, const tensor::Event& e) { return neighbours.send_gradients(v, e); });
  const bool first = shape.stage == 0, last = shape.stage == shape.stages - 1;
  const int passes = shape.micro_batches * shape.chunks;
  const auto value = [&](int m, int sign) { return sign * (shape.first_value + 1000 * (m + 1)); };
  const auto step = [&](Direction& side, int n, bool at_begin, bool at_end, int sign) {
    const int m = n % shape.micro_batches, round = n / shape.micro_batches;
    const bool begins = at_begin && round == 0, ends = at_end && round == shape.chunks - 1;
    side.pass(n, at_begin ? n - shape.micro_batches : n, passes - (at_begin ? shape.micro_batches : 0), m, begins, ends,
              value(m, sign), delay);
  };
  // With virtual stages all forward passes come first. Otherwise a stage is ahead by as many as stages follow it.
  const int ahead = shape.chunks > 1 ? passes : std::min(passes, shape.stages - 1 - shape.stage);
  for (int n = 0; n < passes + ahead; ++n) {
    if (n < passes) step(forward, n, first, last, 1);
    if (n >= ahead) step(backward, n - ahead, last, first, -1);
  }
  compute.synchronize();
  forward.finish();
  backward.finish();
  const int added = compute.on_gpu() ? 0 : shape.stages * shape.chunks;
  for (int m = 0; m < shape.micro_batches; ++m) {
    const std::vector<std::int64_t> there(z(shape.elements), value(m, 1) + added),
        back(z(shape.elements), value(m, -1) + added);
    if (last) {
      EXPECT_EQ(forward.results()[z(m)], there) << "micro-batch " << m;
    }
    if (first) {
      EXPECT_EQ(backward.results()[z(m)], back) << "micro-batch " << m;
    }
  }
}

}  // namespace trainyard::comm::pipeline
