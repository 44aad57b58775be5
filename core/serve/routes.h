// SPDX-License-Identifier: Apache-2.0
// The table of addresses, and the answer to each.
#pragma once

#include <microhttpd.h>

#include "serve/session.h"

// For MHD_start_daemon(); cls is the struct fm_session.
enum MHD_Result fm_routes_answer(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
				 const char *version, const char *upload_data, size_t *upload_data_size,
				 void **request_state);
// The same for MHD_OPTION_NOTIFY_COMPLETED.
void fm_routes_finished(void *cls, struct MHD_Connection *connection, void **request_state,
			enum MHD_RequestTerminationCode why);
