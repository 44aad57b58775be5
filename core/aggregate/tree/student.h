// SPDX-License-Identifier: Apache-2.0
// Student's t distribution: how sure a mean of few runs is.
#pragma once

// Degrees of freedom above which it is the normal distribution for our purposes; a variance that is
// known counts as this.
#define FM_STUDENT_NORMAL 1e4

// The chance that |t| or more comes about by accident, two-sided. df > 0.
double fm_student_p(double t, double df);
// The t for which that chance is p (0 < p < 1): 1.96 for 0.05 and many degrees of freedom, 12.7 for
// one.
double fm_student_t(double p, double df);
