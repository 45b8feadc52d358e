// Fields as JSON: keys with underscores, numbers as numbers, switches as true and false, words with underscores.
#pragma once

#include "libtrain/base/fields.h"
#include "libtrain/base/json.h"

#include <string>

namespace trainyard::plan {

std::string with_underscores(std::string text);  // for every '-' of it
std::string key_of(const base::Field& field);    // "global_batch"; of a field that was renamed its first name
nlohmann::ordered_json json_of(const base::Field& field);
// The value of the field's key in `object`, which must have the type that json_of gives; InputError otherwise, and for
// a value out of range.
void set_from(base::JsonObject& object, base::Field& field);

}  // namespace trainyard::plan
