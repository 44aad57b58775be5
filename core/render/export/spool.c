// SPDX-License-Identifier: Apache-2.0
#include "render/export/spool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static enum fm_err write_block(struct fm_spool *s, struct fm_spool_thread *t, struct fm_diag *diag)
{
	if (!s->file)
		s->file = tmpfile();
	if (!s->file || fseeko(s->file, (off_t)s->size, SEEK_SET) ||
	    fwrite(t->block, sizeof(*t->block), FM_SPOOL_BLOCK, s->file) != FM_SPOOL_BLOCK || fflush(s->file))
		return fm_diag_set(diag, FM_E_IO, "cannot write a temporary file: %s; free some room in /tmp",
				   strerror(errno));
	fm_vec_push(&t->offsets, s->size);
	s->size += sizeof(*t->block) * FM_SPOOL_BLOCK;
	t->n_in_block = 0;
	return FM_OK;
}

enum fm_err fm_spool_add(struct fm_spool *s, uint32_t thread_id, struct fm_run run, struct fm_diag *diag)
{
	fm_vec_grow_to(&s->threads, (size_t)thread_id + 1);
	struct fm_spool_thread *t = &s->threads.items[thread_id];
	t->weight_ns += run.weight_ns;
	struct fm_run *last = t->n_in_block ? &t->block[t->n_in_block - 1] : NULL;
	if (last && !s->keeps_each && last->node == run.node && last->class == run.class) {
		last->weight_ns += run.weight_ns;
		last->end_ns = run.end_ns;
		return FM_OK;
	}
	if (!t->block)
		t->block = fm_alloc(sizeof(*t->block) * FM_SPOOL_BLOCK);
	if (t->n_in_block == FM_SPOOL_BLOCK) {
		enum fm_err err = write_block(s, t, diag);
		if (err)
			return err;
	}
	t->block[t->n_in_block++] = run;
	t->n_runs++;
	s->n_runs++;
	return FM_OK;
}

enum fm_err fm_spool_read(struct fm_spool *s, uint32_t thread_id, size_t block_idx, struct fm_run *ret, uint32_t *ret_n,
			  struct fm_diag *diag)
{
	const struct fm_spool_thread *t = &s->threads.items[thread_id];
	if (block_idx > t->offsets.n || !t->block)
		return FM_E_END;
	if (block_idx == t->offsets.n) { // the one that never filled up
		memcpy(ret, t->block, t->n_in_block * sizeof(*ret));
		*ret_n = t->n_in_block;
		return FM_OK;
	}
	if (fseeko(s->file, (off_t)t->offsets.items[block_idx], SEEK_SET) ||
	    fread(ret, sizeof(*ret), FM_SPOOL_BLOCK, s->file) != FM_SPOOL_BLOCK)
		return fm_diag_set(diag, FM_E_IO, "cannot read back a temporary file: %s", strerror(errno));
	*ret_n = FM_SPOOL_BLOCK;
	return FM_OK;
}

void fm_spool_deinit(struct fm_spool *s)
{
	for (size_t i = 0; i < s->threads.n; i++) {
		free(s->threads.items[i].block);
		fm_vec_deinit(&s->threads.items[i].offsets);
	}
	fm_vec_deinit(&s->threads);
	if (s->file)
		fclose(s->file);
	*s = (struct fm_spool){ 0 };
}
