/* threads plays scenes. A scene has the stores that a writer of the library, or a recovery, has made
 * to a file of a few lines, and some keys that are in the file all the time. threads looks these keys
 * up while it makes the stores: no answer may be "certainly not".
 * TestSchedules and TestRecoverySchedules of mmapfilter/internal/writer write the scenes.
 *
 *	threads SCENES schedules    one thread makes some of the stores before a load of a lookup, and the
 *	                            rest before a later load, for all pairs of loads
 *	threads SCENES ROUNDS       one thread plays each scene ROUNDS times, while others look keys up. For
 *	                            this it is also built with -fsanitize=thread, which does not see what
 *	                            another process does to a mapping.
 *
 * It also counts the keys that lookups without counters miss. As long as these miss nothing, threads
 * goes on, because the stores were too slow to reveal a wrong lookup. */
static void before_load(void);
#define MMF_LOAD(word) (before_load(), __atomic_load_n((word), __ATOMIC_ACQUIRE))
#define MMF_IMPLEMENTATION
#define MMF_STATIC
#include "mmapfilter.h"

#include <pthread.h>
#include <stdio.h>

enum { READERS = 2, MOST_STORES = 512, MOST_KEYS = 64, MOST_LINES = 16, RUNTIME_WORDS = 512 };
enum { SIZE = MMF_REGION - MMF_RUNTIME + 64 * MOST_LINES };

/* A scene. words has the words of the file, from the runtime page on. */
static mmf_filter *filter;
static uint64_t words[SIZE / 8], image[SIZE / 8]; /* image: the words before the stores */
static struct {
	uint64_t word, value, rise; /* rise: by how much the word rises */
} stores[MOST_STORES];
static uint64_t keys[MOST_KEYS]; /* their hashes */
static int store_count, key_count;

static int stop, wrong;
static uint64_t naive, lookups, absent;

static int scheduled, made; /* made: stores of the schedule so far */
static int load, first_load, second_load, first_stores;

static void before_load(void) {
	int until = made;
	if (!scheduled)
		return;
	if (load == first_load)
		until = first_stores;
	if (load == second_load)
		until = store_count;
	for (load++; made < until; made++)
		words[stores[made].word] = stores[made].value;
}

static uint64_t random_word(uint64_t *state) {
	uint64_t z = (*state += 0x9E3779B97F4A7C15u);
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	return (z ^ z >> 27) * 0x94D049BB133111EBu;
}

/* read_scene reads a scene: the kind of the layout, its two parameters as a superblock has them, and
 * the number of lines; then each word that is not 0 ("w"), each store ("s"), each key ("k"), and "e".
 * It returns 0 at the end of the file. */
static int read_scene(FILE *in) {
	unsigned long long kind, a, b, lines;
	char what;
	int n = fscanf(in, " scene %llu %llu %llu %llu", &kind, &a, &b, &lines);
	if (n != 4)
		return 0;
	free(filter);
	if (!(filter = (mmf_filter *)calloc(1, sizeof *filter)) || lines > MOST_LINES)
		abort();
	filter->head.kind = (unsigned)kind;
	filter->head.f = filter->head.q = (unsigned)a;
	filter->head.b = filter->head.r = (unsigned)b;
	filter->head.lines = lines;
	if (!mmf_geometry(&filter->head))
		abort();
	mmf_bind(filter);
	filter->runtime = words;
	filter->stash = words + (MMF_STASH - MMF_RUNTIME) / 8;
	filter->region = words + (MMF_REGION - MMF_RUNTIME) / 8;
	filter->served = 1;
	memset(image, 0, sizeof image);
	memset(words, 0, sizeof words);
	for (store_count = key_count = 0;;) {
		if (fscanf(in, " %c %llu %llu", &what, &a, &b) != 3 || (what != 'k' && a >= SIZE / 8) || store_count > MOST_STORES - 4 || key_count == MOST_KEYS)
			abort();
		if (what == 'e')
			break;
		if (what == 'w') {
			image[a] = words[a] = b;
		} else if (what == 's') {
			stores[store_count].word = a;
			stores[store_count].rise = b - words[a];
			words[a] = stores[store_count++].value = b;
		} else {
			keys[key_count++] = a;
		}
	}
	memcpy(words, image, sizeof words);
	return 1;
}

/* rise adds to a word of the runtime page. Such words only rise. */
static void rise(uint64_t word, uint64_t by) { __atomic_store_n(words + word, words[word] + by, __ATOMIC_RELEASE); }

/* play makes the stores of the scene. Then it puts the words back as a recovery does: in any order,
 * while only the epoch is odd. */
static void play(void) {
	int i;
	for (i = 0; i < store_count; i++)
		if (stores[i].word < RUNTIME_WORDS)
			rise(stores[i].word, stores[i].rise);
		else
			__atomic_store_n(words + stores[i].word, stores[i].value, __ATOMIC_RELEASE);
	rise(MMF_EPOCH, 1);
	for (i = 0; i < store_count; i++)
		if (stores[i].word >= RUNTIME_WORDS)
			__atomic_store_n(words + stores[i].word, image[stores[i].word], __ATOMIC_RELEASE);
	rise(MMF_EPOCH, 1);
}

/* look_naively looks in all places, and does not watch the counters. */
static int look_naively(uint64_t hash) {
	mmf_item it = mmf_split(filter, filter->kind, hash);
	uint64_t other = mmf_alternate(filter, filter->kind, &it);
	return mmf_look(filter, filter->kind, it.line, &it) == MMF_YES || mmf_look_other(filter, filter->kind, other, &it) == MMF_YES ||
		mmf_look_stash(filter, filter->kind, other, &it) == MMF_YES;
}

static void *look_up(void *arg) {
	uint64_t state = (uint64_t)(uintptr_t)arg, asked = 0, missed = 0, no = 0;
	uint8_t found[MOST_KEYS];
	int i;
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
		mmf_contains_hashes(filter, keys, (size_t)key_count, found);
		for (i = 0; i < key_count; i++) {
			if (!found[i] || !mmf_contains_hash(filter, keys[i]))
				__atomic_store_n(&wrong, 1, __ATOMIC_SEQ_CST);
			missed += !look_naively(keys[i]);
			no += !mmf_contains_hash(filter, random_word(&state));
		}
		asked += 2 * (uint64_t)key_count;
	}
	__atomic_fetch_add(&naive, missed, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&lookups, asked, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&absent, no, __ATOMIC_SEQ_CST);
	return NULL;
}

/* beside plays all scenes while threads look up. */
static void beside(FILE *in, unsigned long rounds) {
	pthread_t threads[READERS];
	unsigned long round;
	int i;
	while (read_scene(in)) {
		stop = 0;
		for (i = 0; i < READERS; i++)
			if (pthread_create(&threads[i], NULL, look_up, (void *)(uintptr_t)(i + 1)))
				abort();
		for (round = 0; round < rounds; round++)
			play();
		__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
		for (i = 0; i < READERS; i++)
			pthread_join(threads[i], NULL);
	}
}

/* look looks a hash up in one of three ways while the schedule is under way. */
static int look(int way, uint64_t hash) {
	uint8_t found = 0;
	for (made = 0; made < store_count; made++)
		words[stores[made].word] = image[stores[made].word];
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

/* cuts looks a hash up in all ways while stores are made: first least to most of them, and later the
 * rest. */
static void cuts(uint64_t hash, int least, int most) {
	int way;
	for (way = 0; way < 3; way++)
		for (first_stores = least; first_stores <= most; first_stores++)
			for (first_load = 0; first_load < 80; first_load++)
				for (second_load = first_load + 1; second_load < 100; second_load++) {
					int found = look(way, hash);
					lookups++;
					if (!found && way < 2 && !wrong++)
						fprintf(stderr, "way %d: %d of %d stores before load %d, the rest before load %d\n", way, first_stores, store_count, first_load, second_load);
					naive += !found;
					if (load <= first_load)
						first_load = 80; /* the lookup has no more loads */
					if (load <= second_load)
						break;
				}
}

/* fail appends the stores for another file that fails to take the place of this one, and then the
 * beginning of another move. The sum of all counters may then be the same as before. It returns 0 if
 * the scene changes no counter, or the epoch itself. */
static int fail(void) {
	uint64_t counter = 0, value = 0;
	int i;
	for (i = 0; i < store_count; i++) {
		if (stores[i].word == MMF_EPOCH)
			return 0;
		if (stores[i].word < RUNTIME_WORDS) {
			counter = stores[i].word;
			value = stores[i].value;
		}
	}
	if (!counter)
		return 0;
	stores[i].word = stores[i + 1].word = MMF_EPOCH;
	stores[i].value = ~(uint64_t)0;
	stores[i + 1].value = image[MMF_EPOCH];
	stores[i + 2].word = counter;
	stores[i + 2].value = value + 1;
	store_count += 3;
	return 1;
}

static void schedules(FILE *in) {
	while (read_scene(in)) {
		int i, n = store_count;
		for (i = 0; i < key_count; i++)
			cuts(keys[i], 0, n - 1);
		for (i = fail() ? 0 : key_count; i < key_count; i++)
			cuts(keys[i], n + 1, n + 1);
	}
}

int main(int argc, char **argv) {
	FILE *in = argc == 3 ? fopen(argv[1], "r") : NULL;
	int passes;
	if (!in)
		return 2;
	if (!strcmp(argv[2], "schedules"))
		schedules(in);
	else
		for (passes = 0; passes < 1000 && !(naive && absent); passes++, rewind(in)) /* but not forever */
			beside(in, strtoul(argv[2], NULL, 10));
	printf("%llu lookups, %llu absent keys told; lookups without counters missed %llu\n", (unsigned long long)lookups,
		(unsigned long long)absent, (unsigned long long)naive);
	if (wrong)
		fputs("WRONG: a key was answered \"certainly not\"\n", stderr);
	free(filter);
	fclose(in);
	return wrong ? 1 : naive ? 0 : 4; /* 4: the lookups without counters missed nothing */
}
