// Adds up the counts and losses of a gate.
#include "kernels/gate_record/gate_record.h"

#include "kernels/check.h"
#include "kernels/gpu_kernels.h"

namespace trainyard::kernels {

namespace {

std::int64_t in_units(double loss, double targets) {
  if (!(__builtin_fabs(loss * targets) < 0x1p40)) return 0;  // once a step is not finite, its losses are not recorded
  return static_cast<std::int64_t>(__builtin_rint(loss * targets / gate_record_unit));
}

void record_on_cpu(const GateRecordArgs& a) {
  for (std::int64_t e = 0; e < a.experts; ++e) {
    if (a.as_numbers.type == Type::f64 && !a.as_numbers.empty()) a.as_numbers.row<double>(0)[e] = a.loads[e];
    else if (!a.as_numbers.empty()) a.as_numbers.row<float>(0)[e] = static_cast<float>(a.loads[e]);
    if (a.record == nullptr) continue;
    a.record[kept_places] += a.groups[2 * e + 1];
    a.record[gate_record_sums + e] += a.loads[e];
  }
  if (a.record == nullptr) return;
  for (int loss = 0; loss < 3; ++loss) a.record[balance_sum + loss] += in_units(a.losses[loss], *a.targets);
  a.record[target_sum] += static_cast<std::int64_t>(*a.targets);
}

void run_record(tensor::Exec& exec, const GateRecordArgs& args) {
  exec.run([&exec, args] {
    if (exec.on_gpu()) tensor::require_gpu(gpu_kernels().gate_record(args, exec.stream()), "gate_record on the GPU");
    else record_on_cpu(args);
  });
}

}  // namespace

void gate_record(tensor::Exec& exec, base::ConstView groups, base::ConstView loads, base::ConstView losses,
                 const double* targets, base::View record) {
  const auto experts = groups.rows();
  require_type(groups, base::DType::i32, "gate_record", "groups");
  require_type(loads, base::DType::i32, "gate_record", "loads");
  require_type(losses, base::DType::f64, "gate_record", "losses");
  require_type(record, base::DType::i64, "gate_record", "record");
  TRAINYARD_ASSERT(loads.count() == 2 * experts && losses.count() == 3 && record.count() >= gate_record_sums + experts,
                   "a record of {} numbers for {} experts", record.count(), experts);
  GateRecordArgs args;
  args.groups = groups.ptr<std::int32_t>(), args.loads = loads.ptr<std::int32_t>();
  args.losses = losses.ptr<double>(), args.targets = targets;
  args.experts = experts, args.record = record.ptr<std::int64_t>();
  run_record(exec, args);
}

void gate_loads(tensor::Exec& exec, base::ConstView loads, base::View out) {
  require_type(loads, base::DType::i32, "gate_loads", "loads");
  require_types(out, accumulation_types, "gate_loads", "out");
  TRAINYARD_ASSERT(loads.count() == 2 * out.count() && out.dense(), "{} loads of {} experts", loads.count(),
                   out.count());
  GateRecordArgs args;
  args.loads = loads.ptr<std::int32_t>(), args.experts = out.count(), args.as_numbers = mat(out);
  run_record(exec, args);
}

}  // namespace trainyard::kernels
