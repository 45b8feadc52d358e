// The list of ceilings and the work behind each.
#include "kernels/attention/attention.h"
#include "kernels/cast/cast.h"
#include "kernels/dispatch.h"
#include "kernels/gemm/gemm.h"
#include "kernels/linear/linear.h"
#include "kernels/peak/peak.h"
#include "kernels/update/update.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/random.h"
#include "libtrain/io/bulk.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/cost/activations.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/optimizer_kind.h"
#include "libtrain/plan/spec/widths.h"
#include "libtrain/profile/block_work.h"
#include "libtrain/profile/ceilings.h"
#include "libtrain/profile/storage_work.h"
#include "libtrain/tensor/device_buffer.h"
#include "libtrain/tensor/gpu.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unistd.h>

namespace trainyard::profile {

namespace {

using base::DType;
using base::View;

constexpr std::int64_t chunk_bytes = std::int64_t{8} << 20, pattern_length = std::int64_t{1} << 20;
constexpr std::int64_t adamw_elements = std::int64_t{1} << 24;

// Memory, scratch and an Exec with as many threads as a ceiling wants.
struct Bench {
  Bench(base::Device device, int threads, std::int64_t bytes, std::int64_t scratch_bytes)
      : memory(tensor::Category::activations, bytes + pattern_length * 4 + 64 * 64, device),
        scratch(tensor::Category::workspace, std::max<std::int64_t>(64, scratch_bytes), device),
        exec(device.kind == base::DeviceKind::cuda ? tensor::Exec::gpu(device.index, &scratch)
                                                   : tensor::Exec::caller(&scratch, threads)) {}
  View zeros(DType t, std::initializer_list<std::int64_t> shape) {
    const auto v = memory.allocate(t, shape);
    tensor::clear(*exec, v);
    return v;
  }
  // Random values: a chip that multiplies one number again and again is cooler and faster than a chip at work.
  View values(DType t, std::initializer_list<std::int64_t> shape) {
    if (!pattern) {
      std::vector<float> host(base::size(pattern_length));
      base::fill_normal(host.data(), pattern_length, 1, "ceiling", 0, 1.0);
      pattern = memory.allocate(DType::f32, {pattern_length});
      tensor::copy(*exec, View::of(host.data(), {pattern_length}), pattern);
      exec->synchronize();
    }
    const auto v = memory.allocate(t, shape);
    for (std::int64_t at = 0; at < v.count(); at += pattern_length) {
      const auto n = std::min(pattern_length, v.count() - at);
      kernels::cast(*exec, View(pattern.data, DType::f32, {n}, pattern.device),
                    View(static_cast<char*>(v.data) + at * base::size_of(t), t, {n}, v.device));
    }
    return v;
  }
  tensor::Arena memory, scratch;
  std::unique_ptr<tensor::Exec> exec;
  View pattern;
};
using Shared = std::shared_ptr<Bench>;

void fill_all(tensor::Exec& exec, const View& to, unsigned char byte) {
  if (exec.on_gpu()) kernels::fill(exec, to, byte);
  else kernels::stream_fill(exec, to, byte);
}

class List {
 public:
  List(const CeilingOptions& o, const std::string& rank_suffix)
      : o_(o), suffix_(rank_suffix), gpu_(o.device.kind == base::DeviceKind::cuda), threads_(gpu_ ? 1 : o.threads),
        tokens_(o.micro_batch * o.sequence), part_(o.model, o.tensor) {}

  std::vector<Ceiling> make() {
    for (const int t : threads_ > 1 ? std::vector<int>{1, threads_} : std::vector<int>{1}) {
      if (!gpu_)
        list_.push_back({.name = "arithmetic.f32",
                         .shape = kernels::name_of(kernels::base_of(kernels::active_isa())),
                         .unit = "FLOP/s",
                         .threads = t,
                         .make = [t] { return arithmetic(t, kernels::multiply_adds); }});
      if (!gpu_ && std::find(o_.dtypes.begin(), o_.dtypes.end(), DType::bf16) != o_.dtypes.end())
        list_.push_back({.name = "arithmetic.bf16",
                         .shape = kernels::name_of(kernels::active_isa()),
                         .unit = "FLOP/s",
                         .threads = t,
                         .make = [t] { return arithmetic(t, kernels::bf16_multiply_adds); }});
      const auto shape = base::binary_size_text(o_.copied_bytes);
      const auto n = static_cast<double>(o_.copied_bytes);
      list_.push_back({.name = "memory.copy",
                       .shape = shape,
                       .unit = "B/s",
                       .threads = t,
                       .make = [this, t] { return copy(o_.device, t); },
                       .amount = 2 * n,
                       .memory_bytes = 2 * n});
      list_.push_back({.name = "memory.write",
                       .shape = shape,
                       .unit = "B/s",
                       .threads = t,
                       .make = [this, t] { return write(t); },
                       .amount = n,
                       .memory_bytes = n});
    }
    if (gpu_) {
      for (const auto d : o_.dtypes)
        list_.push_back({.name = fmt::format("arithmetic.{}", base::name_of(d)),
                         .shape = "square product",
                         .unit = "FLOP/s",
                         .threads = 1,
                         .make = [this, d] { return product(d); }});
      list_.push_back({.name = "copy.to_device", .shape = "64 MiB", .unit = "B/s", .threads = 1, .make = [this] {
                         return across(true);
                       }});
      list_.push_back({.name = "copy.from_device", .shape = "64 MiB", .unit = "B/s", .threads = 1, .make = [this] {
                         return across(false);
                       }});
      list_.push_back({.name = "launch", .shape = "", .unit = "s", .threads = 1, .make = [this] { return launch(); }});
    }
    for (const auto d : o_.dtypes) model(d);
    list_.push_back({.name = "adamw",
                     .shape = fmt::format("{} parameters", adamw_elements),
                     .unit = "B/s",
                     .threads = threads_,
                     .make = [this] { return adamw(); },
                     .amount = static_cast<double>(plan::optimizer_kind("adamw").update_bytes()) * adamw_elements,
                     .memory_bytes = 4 * 4.0 * adamw_elements});  // four arrays of f32
    if (!o_.disk_folder.empty()) {
      list_.push_back({.name = "disk.write",
                       .shape = fmt::format("{} bytes", o_.disk_bytes),
                       .unit = "B/s",
                       .threads = 1,
                       .make = [this] { return disk(true); },
                       .amount = static_cast<double>(o_.disk_bytes)});
      list_.push_back({.name = "disk.read",
                       .shape = fmt::format("{} bytes", o_.disk_bytes),
                       .unit = "B/s",
                       .threads = 1,
                       .make = [this] { return disk(false); },
                       .amount = static_cast<double>(o_.disk_bytes)});
    }
    if (gpu_ && !o_.storage_folders.empty())
      list_.push_back({.name = "host.copy",
                       .shape = base::binary_size_text(o_.copied_bytes),
                       .unit = "B/s",
                       .threads = o_.threads,
                       .make = [this] { return copy({}, o_.threads); }});
    for (auto& c : storage_ceilings(o_)) list_.push_back(std::move(c));
    for (auto& c : block_ceilings(o_)) list_.push_back(std::move(c));
    return std::move(list_);
  }

 private:
  Shared bench(int threads, std::int64_t bytes, std::int64_t scratch = 0) const {
    auto b =
        std::make_shared<Bench>(o_.device, threads, bytes, gpu_ ? plan::gpu_gemm_scratch_bytes + scratch : scratch);
    return b;
  }
  static Work on(const Shared& b, double amount, std::function<void(tensor::Exec&)> run) {
    b->exec->synchronize();
    return {amount, [&e = *b->exec, run = std::move(run)] { run(e); }, b, [&e = *b->exec] { e.synchronize(); }};
  }

  static Work arithmetic(int threads, std::int64_t (*work)(tensor::Exec&, std::int64_t)) {
    std::shared_ptr<tensor::Exec> exec = tensor::Exec::caller(nullptr, threads);
    constexpr std::int64_t rounds = 1 << 20;
    return {static_cast<double>(work(*exec, rounds)), [exec, work] { work(*exec, rounds); }, exec, [] {}};
  }
  Work copy(base::Device device, int threads) const {
    const auto b = std::make_shared<Bench>(device, threads, 2 * o_.copied_bytes, 0);
    const auto n = o_.copied_bytes / 4;
    const auto from = b->memory.allocate(DType::f32, {n}), to = b->memory.allocate(DType::f32, {n});
    fill_all(*b->exec, from, 1), fill_all(*b->exec, to, 2);  // so that pages lie near their threads
    return on(b, 2.0 * static_cast<double>(o_.copied_bytes), [from, to](tensor::Exec& e) {
      if (e.on_gpu()) tensor::copy(e, from, to);  // the device's own copy
      else kernels::stream_copy(e, from, to);
    });
  }
  Work write(int threads) const {
    const auto b = bench(threads, o_.copied_bytes);
    const auto to = b->memory.allocate(DType::f32, {o_.copied_bytes / 4});
    fill_all(*b->exec, to, 2);
    return on(b, static_cast<double>(o_.copied_bytes), [to](tensor::Exec& e) { fill_all(e, to, 1); });
  }
  // A square product: its side doubles from 256 until a run takes more than 5 ms, or to 8192.
  Work product(DType d) const {
    for (std::int64_t n = 256;; n *= 2) {
      const auto b = bench(1, 3 * n * n * 4);
      const auto x = b->values(d, {n, n}), y = b->values(d, {n, n}), z = b->memory.allocate(d, {n, n});
      const auto run = [x, y, z](tensor::Exec& e) {
        kernels::gemm(e,
                      {.a = x, .b = y, .trans_a = kernels::Transpose::no, .trans_b = kernels::Transpose::yes, .c = z});
      };
      run(*b->exec);
      b->exec->synchronize();
      const auto begin = std::chrono::steady_clock::now();
      run(*b->exec);
      b->exec->synchronize();
      if (n == 8192 || std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(5))
        return on(b, 2.0 * static_cast<double>(n * n * n), run);
    }
  }
  Work across(bool to_device) const {
    constexpr std::int64_t bytes = std::int64_t{64} << 20;
    const auto b = bench(1, bytes);
    const auto device = b->memory.allocate(DType::u8, {bytes});
    const auto pinned = std::make_shared<tensor::PinnedBuffer>(bytes);  // shared, because a Work can be copied
    const View host(pinned->data(), DType::u8, {bytes});
    return on(b, static_cast<double>(bytes), [=](tensor::Exec& e) {
      static_cast<void>(pinned);
      if (to_device) tensor::copy(e, host, device);
      else tensor::copy(e, device, host);
    });
  }
  Work launch() const {
    const auto b = bench(1, 64);
    const auto one = b->memory.allocate(DType::f32, {1});
    return on(b, 1, [one](tensor::Exec& e) { kernels::fill(e, one, 1); });
  }

  void model(DType d) {
    const auto& m = o_.model;
    const auto& w = part_;
    const auto layer = [&](const std::string& name, std::int64_t in, std::int64_t out) {
      products(name, tokens_, in, out, d);
    };
    layer("attention.qkv", m.hidden, w.q + 2 * w.kv);
    layer("attention.out", w.q, m.hidden);
    layer("ffn.in", m.hidden, plan::is_gated(m) ? 2 * w.ffn : w.ffn);
    layer("ffn.out", w.ffn, m.hidden);
    products("head", std::min(tokens_, plan::head_chunk_tokens(o_.device.kind)), m.hidden, w.vocabulary, d);
    const auto shape = fmt::format("b{} t{} h{} kv{} d{} {}", o_.micro_batch, o_.sequence, w.heads, w.kv_heads,
                                   m.head_dim(), base::name_of(d));
    const auto memory = static_cast<double>(tokens_ * 4 * (w.q + w.kv)) * 4;
    list_.push_back({.name = "attention.forward",
                     .shape = shape,
                     .unit = "FLOP/s",
                     .threads = threads_,
                     .make = [this, d] { return attention(d, 2); },
                     .amount = attention_flops(2),
                     .memory_bytes = memory});
    list_.push_back({.name = "attention.backward",
                     .shape = shape,
                     .unit = "FLOP/s",
                     .threads = threads_,
                     .make = [this, d] { return attention(d, 5); },
                     .amount = attention_flops(5),
                     .memory_bytes = memory});
  }
  static double product_flops(std::int64_t n, std::int64_t in, std::int64_t out) {
    return 2.0 * static_cast<double>(n) * static_cast<double>(in) * static_cast<double>(out);
  }
  void products(const std::string& name, std::int64_t n, std::int64_t in, std::int64_t out, DType d) {
    const auto shape = fmt::format("{}x{}x{} {}", n, out, in, base::name_of(d));
    const auto memory = static_cast<double>(n * in + n * out + 2 * in * out) * 4;
    for (const int kind : {0, 1, 2})
      list_.push_back({.name = fmt::format("gemm.{}.{}", name,
                                           kind == 0   ? "forward"
                                           : kind == 1 ? "input"
                                                       : "weight"),
                       .shape = shape,
                       .unit = "FLOP/s",
                       .threads = threads_,
                       .make = [this, n, in, out, d, kind] { return linear(n, in, out, d, kind); },
                       .amount = product_flops(n, in, out),
                       .memory_bytes = memory});
  }
  Work linear(std::int64_t n, std::int64_t in, std::int64_t out, DType d, int kind) const {
    const auto scratch =
        std::max({plan::gemm_scratch_bytes(n, out, in, true), plan::gemm_scratch_bytes(n, in, out, true),
                  plan::gemm_scratch_bytes(out, in, n, false)});
    const auto b = bench(threads_, (n * in + n * out + 2 * in * out) * 4 + 1024, scratch);
    const auto x = b->values(d, {n, in}), y = b->values(d, {n, out}), w = b->values(d, {out, in}),
               dw = b->zeros(DType::f32, {out, in});
    return on(b, product_flops(n, in, out), [=](tensor::Exec& e) {
      if (kind == 0) kernels::linear_forward(e, x, w, {}, y);
      else if (kind == 1) kernels::linear_backward_input(e, y, w, x);
      else kernels::linear_backward_weight(e, y, x, dw, {});
    });
  }
  double attention_flops(int products) const {  // the causal half
    return products * static_cast<double>(o_.micro_batch * part_.q) * static_cast<double>(o_.sequence) *
           static_cast<double>(o_.sequence);
  }
  Work attention(DType d, int products) const {
    const auto& m = o_.model;
    const auto B = o_.micro_batch, T = o_.sequence, h = part_.q, kv = part_.kv, heads = part_.heads,
               kv_heads = part_.kv_heads;
    const auto scratch =
        std::max(plan::attention_forward_scratch_bytes(T, m.head_dim(), B * kv_heads, threads_),
                 plan::attention_backward_scratch_bytes(T, m.head_dim(), heads / kv_heads, B * kv_heads, threads_)) +
        plan::gpu_attention_backward_scratch_bytes(B, T, heads, 4);
    const auto b = bench(threads_, tokens_ * (4 * h + 4 * kv) * 4 + tokens_ * heads * 4 + tokens_ * 4 + 4096, scratch);
    const auto q = b->values(d, {tokens_, h}), k = b->values(d, {tokens_, kv}), v = b->values(d, {tokens_, kv}),
               dout = b->values(d, {tokens_, h});
    const auto out = b->zeros(d, {tokens_, h}), dq = b->zeros(d, {tokens_, h}), dk = b->zeros(d, {tokens_, kv}),
               dv = b->zeros(d, {tokens_, kv});
    const auto lse = b->zeros(DType::f32, {B * heads, T}), starts = b->zeros(DType::i32, {B, T});
    const kernels::AttentionShape shape{
        B, T, heads, kv_heads, m.head_dim(), 1 / std::sqrt(static_cast<double>(m.head_dim()))};
    kernels::attention_forward(
        *b->exec, {.shape = shape, .q = q, .k = k, .v = v, .document_start = starts, .out = out, .lse = lse});
    return on(b, attention_flops(products), [=](tensor::Exec& e) {
      if (products == 2)
        kernels::attention_forward(
            e, {.shape = shape, .q = q, .k = k, .v = v, .document_start = starts, .out = out, .lse = lse});
      else
        kernels::attention_backward(e, {.shape = shape,
                                        .q = q,
                                        .k = k,
                                        .v = v,
                                        .document_start = starts,
                                        .out = out,
                                        .lse = lse,
                                        .dout = dout,
                                        .dq = dq,
                                        .dk = dk,
                                        .dv = dv});
    });
  }
  Work adamw() const {
    constexpr auto n = adamw_elements;
    const auto b = bench(threads_, 4 * n * 4);
    const auto p = b->values(DType::f32, {n}), g = b->values(DType::f32, {n}), m = b->zeros(DType::f32, {n}),
               v = b->zeros(DType::f32, {n});
    kernels::AdamW hyper;
    hyper.learning_rate = 1e-4f;
    return on(b, static_cast<double>(plan::optimizer_kind("adamw").update_bytes() * n), [=](tensor::Exec& e) {
      kernels::update(e, {.rule = hyper, .gradient = g, .parameter = p, .states = {m, v}});
    });
  }
  Work disk(bool writes) const {
    struct File {
      explicit File(std::string p) : path(std::move(p)), file(path, io::BulkFile::Mode::create) {}
      ~File() { ::unlink(path.c_str()); }
      std::string path;
      io::BulkFile file;
    };
    const auto file = std::make_shared<File>(fmt::format("{}/profile-comm-{}.partial", o_.disk_folder, suffix_));
    const auto block = std::make_shared<std::vector<char>>(base::size(chunk_bytes));
    for (std::size_t i = 0; i < block->size(); ++i)
      (*block)[i] = static_cast<char>(i * 2654435761u >> 13);  // bytes that a file system cannot compress
    const auto bytes = o_.disk_bytes;
    const auto each = [bytes](const auto& part) {
      for (std::int64_t at = 0; at < bytes; at += chunk_bytes) part(at, std::min(chunk_bytes, bytes - at));
    };
    const auto write = [file, block, each] {
      each([&](std::int64_t at, std::int64_t n) { file->file.write(at, block->data(), n); });
      file->file.sync();
    };
    if (writes) return {static_cast<double>(bytes), write, file, [] {}};
    write();
    return {static_cast<double>(bytes),
            [file, block, each] {
              file->file.forget();
              each([&](std::int64_t at, std::int64_t n) { file->file.read(at, block->data(), n); });
            },
            file, [] {}};
  }

  CeilingOptions o_;
  std::string suffix_;
  bool gpu_;
  int threads_;
  std::int64_t tokens_;
  plan::Widths part_;  // one rank's part of a layer
  std::vector<Ceiling> list_;
};

}  // namespace

std::vector<Ceiling> ceilings(const CeilingOptions& options, const std::string& rank_suffix) {
  const auto list = std::make_shared<List>(options, rank_suffix);
  auto made = list->make();
  for (auto& c : made) c.make = [list, inner = std::move(c.make)] { return inner(); };  // inner reads the list
  return made;
}

}  // namespace trainyard::profile
