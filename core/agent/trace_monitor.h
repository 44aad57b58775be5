// The callbacks of trace_monitor.c, for the module's table of functions.
#pragma once

#include "agent/py_api.h"

#define FM_TRACE_MONITOR_METHODS 6
extern const struct py_method_def fm_trace_monitor_methods[FM_TRACE_MONITOR_METHODS];
