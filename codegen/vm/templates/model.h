/* $name, made by tensorir $version.
 *
 * Calls. Inputs are checked before anything runs: dtype, ndim and extents. A function returns 0, or
 * the status of an error; ${name}_message(status) returns its text, which must not be freed.
 *
 * Outputs. An output with data == NULL gets new memory, which the caller frees by ${name}_free, also
 * after an error. In other outputs, data is memory of the caller that does not overlap with inputs,
 * for the elements of the shape that the function ${name}_..._shapes writes: it needs dtype, ndim
 * and shape of the inputs only. An extent of -1 becomes known in the call, and such an output must
 * have data == NULL. The function writes dtype, ndim and shape of every output. An input that it
 * writes does not overlap with another one.
 *
 * Memory. With workspace == NULL a call allocates its memory and frees it. A tensorir_workspace that
 * is {0} at first keeps it for the next call of the same function; ${name}_free_workspace frees it.
 * Weights are in the library.
 *
 * Threads. Several threads may call at the same time, each with other outputs and another workspace.
 * Parallel loops of a call run on the threads of OpenMP (OMP_NUM_THREADS).
 *
 * $machine */
#ifndef ${guard}_H
#define ${guard}_H
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#ifndef TENSORIR_TENSOR
#define TENSORIR_TENSOR
/* An array: contiguous, row-major, aligned to its elements. */
typedef struct {
  void *data;
  int32_t dtype; /* one of TENSORIR_... */
  int32_t ndim;  /* at most 8 */
  int64_t shape[8];
} tensorir_tensor;
/* Memory that calls use again: {0} at first. */
typedef struct {
  void *memory;
  int64_t bytes;
  const void *owner;
} tensorir_workspace;
enum {
$dtypes
};
#endif

$functions
const char *${name}_message(int32_t status);
void ${name}_free(void *data);
void ${name}_free_workspace(tensorir_workspace *workspace);

#ifdef __cplusplus
}
#endif
#endif
