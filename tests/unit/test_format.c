#include "test.h"
TEST_MAIN()
