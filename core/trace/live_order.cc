#include "core/trace/live_order.h"

#include "core/trace/json_file.h"

namespace friday {

using nlohmann::json;
using Stage = LiveOrderState::Stage;

NLOHMANN_JSON_SERIALIZE_ENUM(LiveOrderState::Stage,
                             {{Stage::prepared, "prepared"}, {Stage::forcing, "forcing"}, {Stage::over, "over"}})

namespace {

constexpr auto kReplace = json::error_handler_t::replace;

Beneath order_file(const std::string& recording) { return {recording, "order.json"}; }
Beneath state_file(const std::string& recording) { return {recording, "order-state.json"}; }

Result<json> read_object(const Beneath& file) {
  FRIDAY_TRY_VOID(open_beneath(file));
  FRIDAY_TRY(value, read_json(file));
  if (!value.is_object() || !value.contains("id") || !value["id"].is_string())
    return fail(ErrorCode::bad_input, "{} is damaged", file.path());
  return std::move(value);
}

}  // namespace

Result<LiveOrder> read_live_order(const std::string& recording) {
  FRIDAY_TRY(value, read_object(order_file(recording)));
  return LiveOrder{value["id"], value.value("order", json()).dump(-1, ' ', false, kReplace)};
}

Result<LiveOrderState> read_live_order_state(const std::string& recording) {
  FRIDAY_TRY(value, read_object(state_file(recording)));
  const json stage = value.value("stage", json()), came = value.value("came_true", json()),
             why = value.value("why", json());
  LiveOrderState state{.id = value["id"], .stage = stage.get<Stage>()};
  if (json(state.stage) != stage || !came.is_boolean() || !why.is_string())
    return fail(ErrorCode::bad_input, "{} is damaged", state_file(recording).path());
  state.came_true = came;
  state.why = why;
  return state;
}

Result<void> write_live_order(const std::string& recording, const LiveOrder& order) {
  const json value = {{"id", order.id}, {"order", json::parse(order.order, nullptr, false)}};
  return write_beneath(order_file(recording), value.dump(-1, ' ', false, kReplace) + "\n");
}

Result<void> write_live_order_state(const std::string& recording, const LiveOrderState& state) {
  const json value = {{"id", state.id}, {"stage", state.stage}, {"came_true", state.came_true}, {"why", state.why}};
  return write_beneath(state_file(recording), value.dump(-1, ' ', false, kReplace) + "\n");
}

void remove_live_order(const std::string& recording) { remove_beneath(order_file(recording)); }
void remove_live_order_state(const std::string& recording) { remove_beneath(state_file(recording)); }

}  // namespace friday
