/* SPDX-License-Identifier: Apache-2.0 */
/* The only place a version number is written: the build, the soname and the Python package read it
 * from here. */
#ifndef HVD_VERSION_H
#define HVD_VERSION_H

#define HVD_VERSION_MAJOR 1
#define HVD_VERSION_MINOR 0
#define HVD_VERSION_PATCH 0
#define HVD_VERSION_STRING "1.0.0"

/* The version as one number that compares: 1.2.3 is 10203. hvd_version() returns the library's own.
 */
#define HVD_VERSION (HVD_VERSION_MAJOR * 10000 + HVD_VERSION_MINOR * 100 + HVD_VERSION_PATCH)

#endif
