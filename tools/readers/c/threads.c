/* threads moves the items of a filter in the heap, layout compact, by the rules of a writer (W4), while
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

enum { LINES = 4, ITEMS = 12, READERS = 2 };
enum { QUOTIENTS = 41, REMAINDER = 7 };

static mmf_filter *filter;
static uint64_t *words; /* of the file, from the runtime page on */
static uint64_t hashes[ITEMS];
static mmf_item items[ITEMS];
static uint64_t others[ITEMS]; /* alternate lines */
static int stop, wrong;
static uint64_t naive, lookups, absent;

static uint64_t random_word(uint64_t *state) {
	uint64_t z = (*state += 0x9E3779B97F4A7C15u);
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	return (z ^ z >> 27) * 0x94D049BB133111EBu;
}

static uint64_t *word_of(const uint64_t *w) { return words + (w - filter->runtime); }

/* The stores of a move, to make them again between the loads of a lookup. */
enum { MOST_STORES = 32 };
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

/* The places of an item, and whether the overflow bit of its direction is set at home: bits of in. */
enum { HOME = 1, GUEST = 2, STASH = 4, AWAY = 8 };
static unsigned in[ITEMS];

static void put_bits(uint64_t *l, uint64_t bit, unsigned n, uint64_t v) {
	unsigned low = (unsigned)(bit % 64);
	l[bit / 64] |= v << low;
	if (low + n > 64)
		l[bit / 64 + 1] |= v >> (64 - low);
}

/* encode stores the words of a line that differ from those that its items give. */
static void encode(uint64_t line) {
	uint64_t l[8] = {0}, guests = 0, slot = 0;
	const uint64_t *old = filter->region + 8 * line;
	int i;
	for (i = 0; i < ITEMS; i++) { /* in ascending order of fingerprints */
		uint64_t fp = items[i].fp;
		if (in[i] & HOME && items[i].line == line) {
			put_bits(l, slot + (fp >> REMAINDER) + 1, 1, 1);
			put_bits(l, filter->counts + slot++ * REMAINDER, REMAINDER, fp & filter->values);
		}
		if (in[i] & GUEST && others[i] == line)
			put_bits(l, 492 - ++guests * filter->f, filter->f, fp);
		if (in[i] & AWAY && items[i].line == line)
			l[7] |= (uint64_t)1 << (48 + fp % 16);
	}
	l[7] |= guests << 44;
	for (i = 0; i < 8; i++)
		if (l[i] != old[i])
			store(old + i, l[i]);
}

static uint64_t line_of(int i, unsigned place) { return place == GUEST ? others[i] : items[i].line; }

static const uint64_t *counter_of(int i, unsigned place) {
	return filter->runtime + (place == STASH ? MMF_STASH_COUNTER : MMF_COUNTERS + line_of(i, place));
}

/* entry is where an item is in the stash: its first group alone is used, by one item at a time. */
static const uint64_t *entry(int i) {
	return filter->stash + 8 * mmf_hi((items[i].line ^ items[i].fp * MMF_MIX2) * MMF_MIX1, MMF_STASH_GROUPS);
}

/* change makes the stores by which an item comes to a place, or leaves it, or its overflow bit changes. */
static void change(int i, unsigned bit) {
	const uint64_t *e = entry(i);
	in[i] ^= bit;
	if (bit != STASH) {
		encode(line_of(i, bit));
	} else if (in[i] & STASH) {
		store(e, items[i].line);
		store(e + 1, items[i].fp << 32 | 1);
	} else {
		store(e + 1, 0);
		store(e, 0);
	}
}

static void guarded_change(int i, unsigned place) {
	guard(counter_of(i, place));
	change(i, place);
	guard(counter_of(i, place));
}

/* change_away sets or clears the overflow bit of an item, if that is what it takes. No other item of its home
 * has its direction. */
static void change_away(int i, unsigned away) {
	if ((in[i] & AWAY) != away)
		change(i, AWAY);
}

static int has_room(int i, unsigned place) { return place != STASH || !entry(i)[1]; }

/* move moves an item: it comes before it leaves. An entry of the stash that is added hides nothing. */
static void move(int i, unsigned from, unsigned to) {
	if (to != HOME)
		change_away(i, AWAY);
	if (to == STASH)
		change(i, to);
	else
		guarded_change(i, to);
	guarded_change(i, from);
	if (to == HOME)
		change_away(i, 0);
}

/* redo moves an item as a recovery does: in any order, and with the epoch alone. */
static void redo(int i, unsigned from, unsigned to) {
	const uint64_t *epoch = filter->runtime + MMF_EPOCH;
	guard(epoch);
	if (to == HOME)
		change_away(i, 0);
	change(i, from);
	change(i, to);
	if (to != HOME)
		change_away(i, AWAY);
	guard(epoch);
}

/* place_all empties the filter and puts all items home. */
static void place_all(void) {
	int i;
	memset(words, 0, MMF_REGION - MMF_RUNTIME + 64 * LINES);
	for (i = 0; i < ITEMS; i++)
		in[i] = HOME;
	for (i = 0; i < LINES; i++)
		encode((uint64_t)i);
}

static void *write_items(void *arg) {
	uint64_t state = 1, moves = 0, most = *(uint64_t *)arg;
	place_all();
	__atomic_store_n(&stop, 0, __ATOMIC_SEQ_CST);
	while (moves < most || !__atomic_load_n(&naive, __ATOMIC_RELAXED)) {
		uint64_t r = random_word(&state);
		int i = (int)(r % ITEMS);
		unsigned from = in[i] & ~(unsigned)AWAY, to = (r >> 34 & 7) == 0 ? STASH : r >> 32 & 1 ? HOME : GUEST;
		if (to == from || !has_room(i, to))
			continue;
		move(i, from, to);
		if (++moves > 1000 * most) /* nothing runs beside this thread */
			break;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* look_naively looks in all places, and does not watch the counters. */
static int look_naively(uint64_t hash) {
	mmf_item it = mmf_split(filter, MMF_COMPACT, hash);
	uint64_t other = mmf_alternate(filter, MMF_COMPACT, &it);
	return mmf_look(filter, MMF_COMPACT, it.line, &it) == MMF_YES || mmf_look_other(filter, MMF_COMPACT, other, &it) == MMF_YES ||
		mmf_look_stash(filter, MMF_COMPACT, other, &it) == MMF_YES;
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
static int look(int way, uint64_t hash, const uint64_t *image) {
	uint8_t found = 0;
	for (made = 0; made < store_count; made++)
		*stores[made].word = image[stores[made].word - words];
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

/* cuts looks a hash up in all ways while the stores that are recorded are made: least to most of the first of
 * them, and then the rest up to all. It returns 1 if an answer is wrong. */
static int cuts(uint64_t hash, const uint64_t *image, int least, int most, int all) {
	int way;
	store_count = all;
	for (way = 0; way < 3; way++)
		for (first_stores = least; first_stores <= most; first_stores++)
			for (first_load = 0; first_load < 80; first_load++)
				for (second_load = first_load + 1; second_load < 100; second_load++) {
					int found = look(way, hash, image);
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
	unsigned from, to;
	int i, moved;
	if (!image)
		return 2;
	for (i = 0; i < ITEMS; i++)
		for (from = HOME; from <= STASH; from *= 2)
			for (to = HOME; to <= STASH; to *= 2) {
				unsigned before;
				if (from == to)
					continue;
				place_all();
				if (from != HOME)
					move(i, HOME, from);
				words[MMF_EPOCH] = to == STASH ? 2 : 4;
				memcpy(image, words, size);
				before = in[i];
				store_count = 0;
				recording = 1;
				move(i, from, to);
				moved = store_count;
				/* After it, another file takes the place of this one, but fails to, and another move begins. The sum of
				 * all counters may then be what it was. */
				store(filter->runtime + MMF_EPOCH, ~(uint64_t)0);
				store(filter->runtime + MMF_EPOCH, image[MMF_EPOCH]);
				guard(counter_of(i, from));
				recording = 0;
				if (cuts(hashes[i], image, 0, moved - 1, moved) || cuts(hashes[i], image, moved + 1, moved + 1, moved + 3))
					return printf("item %d from place %u to %u\n", i, from, to), 1;
				memcpy(words, image, size);
				in[i] = before;
				store_count = 0;
				recording = 1;
				redo(i, from, to);
				moved = store_count;
				recording = 0;
				if (cuts(hashes[i], image, 0, moved - 1, moved))
					return printf("item %d from place %u to %u, in a recovery\n", i, from, to), 1;
			}
	printf("%llu schedules; lookups without counters missed %llu\n", (unsigned long long)lookups, (unsigned long long)naive);
	free(image);
	return naive ? 0 : 4;
}

int main(int argc, char **argv) {
	uint64_t moves = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000, state = 42;
	pthread_t threads[READERS + 1];
	const size_t size = MMF_REGION - MMF_RUNTIME + 64 * LINES;
	int i, j;
	words = (uint64_t *)calloc(1, size);
	filter = (mmf_filter *)calloc(1, sizeof *filter);
	if (!words || !filter)
		return 2;
	filter->head.kind = MMF_COMPACT;
	filter->head.q = QUOTIENTS;
	filter->head.r = REMAINDER;
	filter->head.lines = LINES;
	if (!mmf_geometry(&filter->head))
		return 2;
	mmf_bind(filter);
	filter->runtime = words;
	filter->stash = words + (MMF_STASH - MMF_RUNTIME) / 8;
	filter->region = words + (MMF_REGION - MMF_RUNTIME) / 8;
	filter->served = 1;
	for (i = 0; i < ITEMS;) { /* in ascending order of fingerprints, and each alone in its direction */
		uint64_t h = random_word(&state);
		mmf_item it = mmf_split(filter, MMF_COMPACT, h);
		for (j = 0; j < i && (items[j].line != it.line || items[j].fp % 16 != it.fp % 16); j++)
			;
		if (j < i)
			continue;
		for (j = i++; j > 0 && items[j - 1].fp > it.fp; j--) {
			hashes[j] = hashes[j - 1];
			items[j] = items[j - 1];
		}
		hashes[j] = h;
		items[j] = it;
	}
	for (i = 0; i < ITEMS; i++)
		others[i] = mmf_alternate(filter, MMF_COMPACT, &items[i]);
	if (argc > 1 && !strcmp(argv[1], "schedules"))
		return schedules(size);
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
