// A small library with some of everything that readers of ELF and DWARF look at: inlined calls, nested scopes, a call
// through the PLT, a realigned stack, a computed jump. Built in several ways (meson.build), then damaged by
// damaged_elf.h. Nobody runs it.
extern int outside(int);
extern void take(void *);

struct point {
	int x, y;
	const struct point *next;
};

static inline __attribute__((always_inline)) int add(const struct point *p, int k)
{
	int sum = p->x * k;
	for (int i = 0; i < k; i++) {
		int part = p->y ^ i;
		sum += part;
	}
	return sum;
}

static __attribute__((noinline)) int walk(const struct point *p, int k)
{
	int sum = 0;
	for (; p; p = p->next)
		sum += add(p, k) + outside(sum);
	return sum;
}

int aligned(int n)
{
	_Alignas(64) char room[256];
	take(room);
	return room[n & 255] + outside(n);
}

int choose(const struct point *p, int k)
{
	switch (k) {
	case 0:
		return add(p, 3);
	case 1:
		return walk(p, 5);
	case 2:
		return aligned(k);
	case 3:
		return outside(k);
	case 4:
		return add(p, walk(p, 2));
	default:
		return k;
	}
}

int main(void)
{
	struct point last = { 1, 2, 0 }, first = { 3, 4, &last };
	return choose(&first, walk(&first, 2));
}
