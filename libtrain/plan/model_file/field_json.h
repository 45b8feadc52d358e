// Fields as JSON: keys with underscores, numbers as numbers, switches as true and false, words with underscores.
#pragma once

#include "libtrain/base/fields.h"
#include "libtrain/base/json.h"

#include <string>

namespace trainyard::plan {

std::string with_underscores(std::string text);  // replaces every '-'
std::string key_of(const base::Field& field);    // "global_batch"; for a renamed field its first name
nlohmann::ordered_json json_of(const base::Field& field);
// Sets the field from its key in `object`. The value must have the type that json_of gives. InputError for another
// type, and for a value out of range.
void set_from(base::JsonObject& object, base::Field& field);

}  // namespace trainyard::plan
