/* threads moves the items of a filter in the heap, layout packed, by the rules of a writer (W4), while
 * they are looked up: no answer may be "certainly not".
 *
 *	threads MOVES        by one thread, while others look up. It is built with -fsanitize=thread too,
 *	                     which does not see what another process does to a mapping.
 *	threads schedules    by the only thread: some of the stores of a move, or of a recovery, before each load
 *	                     of a lookup, and the rest before each later one
 *
 * It also counts what is missed by lookups that do not watch the counters. Threads go on while that is
 * nothing, since the moves were too slow to show anything: so it can tell that a lookup is wrong. */
static void before_load(void);
#define MMF_LOAD(word) (before_load(), __atomic_load_n((word), __ATOMIC_ACQUIRE))
#define MMF_IMPLEMENTATION
#define MMF_STATIC
#include "mmapfilter.h"

#include <pthread.h>
#include <stdio.h>

enum { LINES = 32, ITEMS = 12, READERS = 2 }; /* a line is a word, and eight are a block */

static mmf_filter *filter;
static uint64_t *words; /* of the file, from the runtime page on */
static uint64_t hashes[ITEMS];
static int stop, wrong;
static uint64_t naive, lookups, absent;

static uint64_t random_word(uint64_t *state) {
	uint64_t z = (*state += 0x9E3779B97F4A7C15u);
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	return (z ^ z >> 27) * 0x94D049BB133111EBu;
}

static uint64_t *word_of(const uint64_t *w) { return words + (w - filter->runtime); }

/* The stores of a move, to make them again between the loads of a lookup. */
enum { MOST_STORES = 16 };
static struct {
	uint64_t *word, value;
} stores[MOST_STORES];
static int recording, scheduled, made, store_count; /* made: stores of the schedule so far */
static int load, first_load, second_load, first_stores;

static void store(const uint64_t *w, uint64_t v) {
	if (recording) {
		if (store_count == MOST_STORES)
			abort();
		stores[store_count].word = word_of(w);
		stores[store_count++].value = v;
	}
	__atomic_store_n(word_of(w), v, __ATOMIC_RELEASE);
}

static void before_load(void) {
	int until = made;
	if (!scheduled)
		return;
	if (load == first_load)
		until = first_stores;
	if (load == second_load)
		until = store_count;
	for (load++; made < until; made++)
		*stores[made].word = stores[made].value;
}
static void guard(const uint64_t *counter) { store(counter, *counter + 1); }

/* put stores fp in a free slot of a bucket, without a guard: it only adds. */
static int put(const uint64_t *bucket, uint64_t fp) {
	unsigned i;
	for (i = 0; i < filter->b; i++)
		if (!(*bucket >> i * filter->f & filter->values)) {
			store(bucket, *bucket | fp << i * filter->f);
			return 1;
		}
	return 0;
}

static int take(const uint64_t *bucket, uint64_t fp) {
	unsigned i;
	for (i = 0; i < filter->b; i++)
		if ((*bucket >> i * filter->f & filter->values) == fp) {
			store(bucket, *bucket & ~(filter->values << i * filter->f));
			return 1;
		}
	return 0;
}

/* A place is a line, or the stash. */
typedef struct {
	uint64_t line;
	int stash;
} place;

static const uint64_t *counter_of(place p) {
	return filter->runtime + (p.stash ? MMF_STASH_COUNTER : MMF_COUNTERS + (unsigned)(p.line / 8 % 256));
}

/* entry is the place of an item in the stash: its first group alone is used, by one item at a time. */
static const uint64_t *entry(const mmf_item *it, uint64_t other, uint64_t *key) {
	*key = other < it->line ? other : it->line;
	return filter->stash + 8 * mmf_hi((*key ^ it->fp * MMF_MIX2) * MMF_MIX1, MMF_STASH_GROUPS);
}

static int add(const mmf_item *it, uint64_t other, place p) {
	uint64_t key;
	if (p.stash) {
		const uint64_t *e = entry(it, other, &key);
		if (e[1])
			return 0;
		store(e, key);
		store(e + 1, it->fp << 32 | 1);
		return 1;
	}
	return put(filter->region + p.line, it->fp);
}

static void leave(const mmf_item *it, uint64_t other, place p) {
	uint64_t key;
	if (p.stash) {
		const uint64_t *e = entry(it, other, &key);
		store(e + 1, 0);
		store(e, 0);
	} else if (!take(filter->region + p.line, it->fp)) {
		abort();
	}
}

/* move moves an item. Within a block it may leave before it comes, as a writer's stores may be in
 * any order there: the counter is odd from before the first to after the last. */
static int move(const mmf_item *it, uint64_t other, place from, place to) {
	const uint64_t *counter = counter_of(from);
	if (!from.stash && !to.stash && from.line / 8 == to.line / 8) {
		guard(counter);
		leave(it, other, from);
		if (!add(it, other, to)) {
			add(it, other, from);
			to = from;
		}
		guard(counter);
		return to.line != from.line;
	}
	if (!add(it, other, to))
		return 0;
	guard(counter);
	leave(it, other, from);
	guard(counter);
	return 1;
}

static void *write_items(void *arg) {
	place at[ITEMS];
	uint64_t state = 1, moves = 0, most = *(uint64_t *)arg;
	int i;
	for (i = 0; i < ITEMS; i++) {
		mmf_item it = mmf_split(filter, MMF_PACKED, hashes[i]);
		place home = {it.line, 0};
		at[i] = home;
		if (!add(&it, 0, home))
			abort();
	}
	__atomic_store_n(&stop, 0, __ATOMIC_SEQ_CST);
	while (moves < most || !__atomic_load_n(&naive, __ATOMIC_RELAXED)) {
		uint64_t r = random_word(&state);
		place to;
		mmf_item it;
		i = (int)(r % ITEMS);
		it = mmf_split(filter, MMF_PACKED, hashes[i]);
		to.line = r >> 32 & 1 ? it.line : mmf_alternate(filter, MMF_PACKED, &it);
		to.stash = (r >> 34 & 7) == 0;
		if (to.stash == at[i].stash && (to.stash || to.line == at[i].line))
			continue;
		if (move(&it, mmf_alternate(filter, MMF_PACKED, &it), at[i], to)) {
			at[i] = to;
			moves++;
		}
		if (moves > 1000 * most) /* nothing runs beside this thread */
			break;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* look_naively looks in all places, and does not watch the counters. */
static int look_naively(uint64_t hash) {
	mmf_item it = mmf_split(filter, MMF_PACKED, hash);
	uint64_t other = mmf_alternate(filter, MMF_PACKED, &it);
	return mmf_look(filter, MMF_PACKED, it.line, &it) == MMF_YES || mmf_look(filter, MMF_PACKED, other, &it) == MMF_YES ||
		mmf_look_stash(filter, MMF_PACKED, other, &it) == MMF_YES;
}

static void *read_items(void *arg) {
	uint64_t state = (uint64_t)(uintptr_t)arg, asked = 0, missed = 0, no = 0;
	uint8_t found[ITEMS];
	int i, s;
	while ((s = __atomic_load_n(&stop, __ATOMIC_SEQ_CST)) != 1) {
		if (s < 0)
			continue;
		mmf_contains_hashes(filter, hashes, ITEMS, found);
		for (i = 0; i < ITEMS; i++) {
			if (!found[i] || !mmf_contains_hash(filter, hashes[i]))
				__atomic_store_n(&wrong, 1, __ATOMIC_SEQ_CST);
			missed += !look_naively(hashes[i]);
			no += !mmf_contains_hash(filter, random_word(&state));
		}
		asked += 2 * ITEMS;
		if (missed)
			__atomic_fetch_add(&naive, missed, __ATOMIC_RELAXED);
		missed = 0;
	}
	__atomic_fetch_add(&lookups, asked, __ATOMIC_RELAXED);
	__atomic_fetch_add(&absent, no, __ATOMIC_RELAXED);
	return NULL;
}

/* look looks a hash up in one of three ways while the schedule is under way. */
static int look(int way, uint64_t hash, const uint64_t *image, size_t size) {
	uint8_t found = 0;
	memcpy(words, image, size);
	made = load = 0;
	scheduled = 1;
	if (way == 0)
		found = (uint8_t)mmf_contains_hash(filter, hash);
	else if (way == 1)
		mmf_contains_hashes(filter, &hash, 1, &found);
	else
		found = (uint8_t)look_naively(hash);
	scheduled = 0;
	return found;
}

/* redo moves an item as a recovery does: in any order, and with the epoch alone. */
static void redo(const mmf_item *it, uint64_t other, place from, place to) {
	const uint64_t *epoch = filter->runtime + MMF_EPOCH;
	guard(epoch);
	leave(it, other, from);
	if (!add(it, other, to))
		abort();
	guard(epoch);
}

/* cuts looks a hash up in all ways while the stores that are recorded are made: least to most of the first of
 * them, and then the rest up to all. It returns 1 if an answer is wrong. */
static int cuts(uint64_t hash, const uint64_t *image, size_t size, int least, int most, int all) {
	int way;
	store_count = all;
	for (way = 0; way < 3; way++)
		for (first_stores = least; first_stores <= most; first_stores++)
			for (first_load = 0; first_load < 80; first_load++)
				for (second_load = first_load + 1; second_load < 100; second_load++) {
					int found = look(way, hash, image, size);
					lookups++;
					if (!found && way < 2) {
						printf("WRONG: way %d: %d of %d stores before load %d, the rest before load %d\n", way, first_stores, all, first_load, second_load);
						return 1;
					}
					naive += !found;
					if (load <= first_load)
						first_load = 80; /* the lookup has no more loads */
					if (load <= second_load)
						break;
				}
	return 0;
}

/* schedules tries all of them, for every move of an item. */
static int schedules(size_t size) {
	uint64_t *image = (uint64_t *)malloc(size);
	int i, from, to, moved;
	if (!image)
		return 2;
	for (i = 0; i < ITEMS; i++)
		for (from = 0; from < 3; from++)
			for (to = 0; to < 3; to++) {
				mmf_item it = mmf_split(filter, MMF_PACKED, hashes[i]);
				uint64_t other = mmf_alternate(filter, MMF_PACKED, &it);
				place places[3] = {{it.line, 0}, {0, 0}, {0, 1}};
				places[1].line = other;
				if (from == to || other == it.line)
					continue;
				memset(words, 0, size);
				words[MMF_EPOCH] = 2;
				if (!add(&it, other, places[0]) || (from && !move(&it, other, places[0], places[from])))
					abort();
				memcpy(image, words, size);
				store_count = 0;
				recording = 1;
				if (!move(&it, other, places[from], places[to]))
					abort();
				moved = store_count;
				/* After it, another file takes the place of this one, but fails to, and another move begins. The sum of
				 * all counters may then be what it was. */
				store(filter->runtime + MMF_EPOCH, ~(uint64_t)0);
				store(filter->runtime + MMF_EPOCH, 2);
				guard(counter_of(places[from]));
				recording = 0;
				if (cuts(hashes[i], image, size, 0, moved - 1, moved) || cuts(hashes[i], image, size, moved + 1, moved + 1, moved + 3))
					return printf("item %d from place %d to %d\n", i, from, to), 1;
				memcpy(words, image, size);
				store_count = 0;
				recording = 1;
				redo(&it, other, places[from], places[to]);
				moved = store_count;
				recording = 0;
				if (cuts(hashes[i], image, size, 0, moved - 1, moved))
					return printf("item %d from place %d to %d, in a recovery\n", i, from, to), 1;
			}
	printf("%llu schedules; lookups without counters missed %llu\n", (unsigned long long)lookups, (unsigned long long)naive);
	free(image);
	return naive ? 0 : 4;
}

int main(int argc, char **argv) {
	uint64_t moves = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000, state = 42;
	pthread_t threads[READERS + 1];
	int i;
	words = (uint64_t *)calloc(1, MMF_REGION - MMF_RUNTIME + 8 * LINES);
	filter = (mmf_filter *)calloc(1, sizeof *filter);
	if (!words || !filter)
		return 2;
	filter->head.kind = MMF_PACKED;
	filter->head.f = 16;
	filter->head.b = 4;
	filter->head.lines = LINES;
	if (!mmf_geometry(&filter->head))
		return 2;
	mmf_bind(filter);
	filter->runtime = words;
	filter->stash = words + (MMF_STASH - MMF_RUNTIME) / 8;
	filter->region = words + (MMF_REGION - MMF_RUNTIME) / 8;
	filter->served = 1;
	for (i = 0; i < ITEMS; i++)
		hashes[i] = random_word(&state);
	if (argc > 1 && !strcmp(argv[1], "schedules"))
		return schedules(MMF_REGION - MMF_RUNTIME + 8 * LINES);
	stop = -1;
	for (i = 0; i < READERS; i++)
		if (pthread_create(&threads[i], NULL, read_items, (void *)(uintptr_t)(i + 1)))
			return 2;
	if (pthread_create(&threads[READERS], NULL, write_items, &moves))
		return 2;
	for (i = 0; i <= READERS; i++)
		pthread_join(threads[i], NULL);
	printf("%llu lookups, %llu absent keys told; lookups without counters missed %llu\n", (unsigned long long)lookups,
		(unsigned long long)absent, (unsigned long long)naive);
	if (wrong)
		puts("WRONG: an item was answered \"certainly not\"");
	free(words);
	free(filter);
	return wrong ? 1 : naive && absent ? 0 : 4; /* 4: nothing was shown */
}
