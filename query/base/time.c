/* SPDX-License-Identifier: MIT */
#include "query/base/time.h"

#include "common/clock.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

/* Seconds whose nanoseconds fit into 64 bits: the years 1678 to 2261. */
#define SECONDS_MAX (INT64_MAX / SHFS_NSEC_PER_SEC - 1)

static struct tm local_of(int64_t ns)
{
	time_t t = shfs_ns_timespec(ns).tv_sec;
	struct tm tm = { 0 };

	localtime_r(&t, &tm);
	return tm;
}

/* --- reading --- */

static void skip_blanks(const char **p)
{
	while (isspace((unsigned char)**p))
		(*p)++;
}

/* Skips word, if it is there as a whole. */
static bool skip_time_word(const char **p, const char *word)
{
	size_t len = strlen(word);

	if (strncasecmp(*p, word, len) || isalpha((unsigned char)(*p)[len]))
		return false;
	*p += len;
	skip_blanks(p);
	return true;
}

/* Skips digits, at least min and at most max of them. */
static bool take_digits(const char **p, int min, int max, int64_t *out)
{
	int64_t n = 0;
	int count = 0;

	for (; count < max && isdigit((unsigned char)**p); (*p)++, count++)
		n = n * 10 + (**p - '0');
	if (count < min || isdigit((unsigned char)**p))
		return false;
	*out = n;
	return true;
}

/* Parses ".25" as nanoseconds; an empty string is 0. */
static bool take_fraction(const char **p, int64_t *ns)
{
	int64_t unit = SHFS_NSEC_PER_SEC / 10;

	*ns = 0;
	if (**p != '.' && **p != ',')
		return true;
	(*p)++;
	if (!isdigit((unsigned char)**p))
		return false;
	for (; isdigit((unsigned char)**p); (*p)++, unit /= 10)
		*ns += unit * (**p - '0');
	return true;
}

static int finish_time(const char *rest, int64_t seconds, int64_t fraction_ns,
                       int64_t *ns)
{
	if (*rest || seconds > SECONDS_MAX || seconds < -SECONDS_MAX)
		return -EINVAL;
	*ns = seconds * SHFS_NSEC_PER_SEC + fraction_ns;
	return 0;
}

static int parse_epoch(const char *p, int64_t *ns)
{
	bool negative = *p == '-';
	int64_t seconds, fraction;

	p += negative;
	if (!take_digits(&p, 1, 12, &seconds) || !take_fraction(&p, &fraction))
		return -EINVAL;
	return negative ? finish_time(p, -seconds, -fraction, ns)
	                : finish_time(p, seconds, fraction, ns);
}

static const struct unit {
	const char *names[5];
	int seconds, days, months; /* only one is not 0 */
} units[] = {
	{ { "s", "sec", "secs", "second", "seconds" }, .seconds = 1 },
	{ { "m", "min", "mins", "minute", "minutes" }, .seconds = 60 },
	{ { "h", "hr", "hrs", "hour", "hours" }, .seconds = 3600 },
	{ { "d", "day", "days" }, .days = 1 },
	{ { "w", "wk", "week", "weeks" }, .days = 7 },
	{ { "mo", "month", "months" }, .months = 1 },
	{ { "y", "yr", "year", "years" }, .months = 12 },
};

static const struct unit *take_unit(const char **p)
{
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		for (size_t k = 0; k < ARRAY_SIZE(units[i].names); k++)
			if (units[i].names[k] && skip_time_word(p, units[i].names[k]))
				return &units[i];
	return NULL;
}

static void go_back(struct tm *tm, const struct unit *unit, int64_t n, int64_t *seconds)
{
	*seconds += n * unit->seconds;
	tm->tm_mday -= n * unit->days;
	tm->tm_mon -= n * unit->months;
}

/* Takes the count of a unit: "2" of "2 hours", "an" of "an hour". */
static bool take_count(const char **p, int64_t *n)
{
	if (!skip_time_word(p, "a") && !skip_time_word(p, "an"))
		return take_digits(p, 1, 6, n);
	*n = 1;
	return true;
}

/* "2 hours ago", "an hour ago", "1h 30min", "last week". */
static int parse_ago(const char *p, int64_t now_ns, int64_t *ns)
{
	struct tm tm = local_of(now_ns);
	int64_t n, seconds = 0;
	const struct unit *unit;

	if (skip_time_word(&p, "last")) {
		unit = take_unit(&p);
		if (!unit)
			return -EINVAL;
		go_back(&tm, unit, 1, &seconds);
	} else {
		do {
			if (!take_count(&p, &n))
				return -EINVAL;
			skip_blanks(&p);
			unit = take_unit(&p);
			if (!unit)
				return -EINVAL;
			go_back(&tm, unit, n, &seconds);
		} while (isdigit((unsigned char)*p));
		skip_time_word(&p, "ago");
	}
	tm.tm_isdst = -1;
	return finish_time(p, (int64_t)mktime(&tm) - seconds,
	                   shfs_ns_timespec(now_ns).tv_nsec, ns);
}

static bool take_weekday(const char **p, struct tm *tm)
{
	static const char *const names[7][2] = {
		{ "sunday", "sun" },    { "monday", "mon" },   { "tuesday", "tue" },
		{ "wednesday", "wed" }, { "thursday", "thu" }, { "friday", "fri" },
		{ "saturday", "sat" },
	};

	for (int day = 0; day < 7; day++) {
		if (!skip_time_word(p, names[day][0]) &&
		    !skip_time_word(p, names[day][1]))
			continue;
		/* The name of today's weekday means a week ago. */
		tm->tm_mday -= (tm->tm_wday - day + 6) % 7 + 1;
		return true;
	}
	return false;
}

static bool take_date(const char **p, struct tm *tm)
{
	int64_t year, month, day;

	if (!take_digits(p, 4, 4, &year) || *(*p)++ != '-' ||
	    !take_digits(p, 2, 2, &month) || *(*p)++ != '-' ||
	    !take_digits(p, 2, 2, &day))
		return false;
	if (month < 1 || month > 12 || day < 1 || day > 31)
		return false;
	tm->tm_year = year - 1900;
	tm->tm_mon = month - 1;
	tm->tm_mday = day;
	return true;
}

/* Parses a day, as a change of tm from today. False: there is none, *p is unchanged. */
static bool take_day(const char **p, struct tm *tm)
{
	const char *start = *p;
	struct tm day = *tm;

	if (skip_time_word(p, "today")) {
		return true;
	} else if (skip_time_word(p, "yesterday")) {
		tm->tm_mday--;
		return true;
	} else if (take_date(p, &day)) {
		int wanted = day.tm_mday;

		/* There is no 31st of April. */
		day.tm_isdst = -1;
		if (mktime(&day) == -1 && day.tm_year > 71)
			return false;
		*tm = day;
		return day.tm_mday == wanted;
	}
	*p = start;
	skip_time_word(p, "last");
	if (take_weekday(p, tm))
		return true;
	*p = start;
	return false;
}

static bool take_clock(const char **p, struct tm *tm, int64_t *fraction_ns)
{
	int64_t hour, min, sec = 0;

	if (!take_digits(p, 1, 2, &hour) || *(*p)++ != ':' || !take_digits(p, 2, 2, &min))
		return false;
	if (**p == ':') {
		(*p)++;
		if (!take_digits(p, 2, 2, &sec) || !take_fraction(p, fraction_ns))
			return false;
	}
	tm->tm_hour = hour;
	tm->tm_min = min;
	tm->tm_sec = sec;
	return hour < 24 && min < 60 && sec <= 60;
}

/* 1 and *seconds east of Greenwich, 0 if no zone is named, or -EINVAL. */
static int take_zone(const char **p, int64_t *seconds)
{
	int64_t hours, minutes;
	int sign;

	skip_blanks(p);
	if (skip_time_word(p, "z") || skip_time_word(p, "utc")) {
		*seconds = 0;
		return 1;
	}
	if (**p != '+' && **p != '-')
		return 0;
	sign = *(*p)++ == '-' ? -1 : 1;
	if (!isdigit((*p)[0]) || !isdigit((*p)[1]))
		return -EINVAL;
	hours = 10 * ((*p)[0] - '0') + ((*p)[1] - '0');
	*p += 2;
	*p += **p == ':';
	if (!take_digits(p, 2, 2, &minutes) || hours > 15 || minutes > 59)
		return -EINVAL;
	*seconds = sign * (hours * 3600 + minutes * 60);
	return 1;
}

/* Parses a day, a time of day, or both; with both a zone may follow. */
static int parse_moment(const char *p, int64_t now_ns, int64_t *ns)
{
	struct tm tm = local_of(now_ns);
	int64_t fraction = 0, east;
	bool day;
	int zone;

	tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
	tm.tm_isdst = -1;
	day = take_day(&p, &tm);
	if (day && !*p)
		return finish_time(p, mktime(&tm), 0, ns);
	if (day && (*p == 'T' || *p == 't'))
		p++;
	skip_blanks(&p);
	tm.tm_isdst = -1;
	if (!take_clock(&p, &tm, &fraction))
		return -EINVAL;
	zone = take_zone(&p, &east);
	if (zone < 0)
		return zone;
	skip_blanks(&p);
	return finish_time(p, zone ? timegm(&tm) - east : mktime(&tm), fraction, ns);
}

int shfs_time_parse_at(const char *text, int64_t now_ns, int64_t *ns)
{
	const char *p = text;

	skip_blanks(&p);
	if (*p == '@')
		return parse_epoch(p + 1, ns);
	if (skip_time_word(&p, "now") && !*p) {
		*ns = now_ns;
		return 0;
	}
	if (!parse_moment(p, now_ns, ns))
		return 0;
	return parse_ago(p, now_ns, ns);
}

int shfs_time_parse(const char *text, int64_t *ns)
{
	return shfs_time_parse_at(text, shfs_clock_ns(CLOCK_REALTIME), ns);
}

/* --- showing --- */

static void add_formatted_time(struct shfs_buf *out, const char *format,
                               const struct tm *tm)
{
	char text[64];

	strftime(text, sizeof(text), format, tm);
	shfs_buf_str(out, text);
}

void shfs_time_show(struct shfs_buf *out, int64_t ns)
{
	struct tm tm = local_of(ns);

	add_formatted_time(out, "%Y-%m-%d %H:%M:%S", &tm);
}

void shfs_time_show_utc(struct shfs_buf *out, int64_t ns)
{
	struct timespec t = shfs_ns_timespec(ns);
	struct tm tm = { 0 };

	gmtime_r(&t.tv_sec, &tm);
	add_formatted_time(out, "%Y-%m-%dT%H:%M:%S", &tm);
	shfs_buf_printf(out, ".%09ldZ", t.tv_nsec);
}

static void ago(struct shfs_buf *out, int64_t n, const char *unit)
{
	shfs_buf_printf(out, "%lld %s%s ago", (long long)n, unit, n == 1 ? "" : "s");
}

void shfs_time_show_relative_at(struct shfs_buf *out, int64_t ns, int64_t now_ns)
{
	/* the times of a journal may be anything */
	uint64_t between = (uint64_t)now_ns - (uint64_t)ns;
	int64_t seconds = (int64_t)(between / SHFS_NSEC_PER_SEC), days = seconds / 86400;

	if (now_ns < ns)
		shfs_buf_str(out, "in the future");
	else if (seconds < 90)
		ago(out, seconds, "second");
	else if (seconds < 90 * 60)
		ago(out, seconds / 60, "minute");
	else if (seconds < 36 * 3600)
		ago(out, seconds / 3600, "hour");
	else if (days < 14)
		ago(out, days, "day");
	else if (days < 70)
		ago(out, days / 7, "week");
	else if (days < 730)
		ago(out, days * 12 / 365, "month");
	else
		ago(out, days / 365, "year");
}

void shfs_time_show_relative(struct shfs_buf *out, int64_t ns)
{
	shfs_time_show_relative_at(out, ns, shfs_clock_ns(CLOCK_REALTIME));
}

void shfs_time_show_duration(struct shfs_buf *out, int64_t ns)
{
	long long s = MAX(ns, (int64_t)0) / SHFS_NSEC_PER_SEC;

	if (s < 10)
		shfs_buf_printf(out, "%.*f s", s < 1 ? 2 : 1, MAX(ns, (int64_t)0) / 1e9);
	else if (s < 100)
		shfs_buf_printf(out, "%lld s", s);
	else if (s < 3600)
		shfs_buf_printf(out, "%lld min %02lld s", s / 60, s % 60);
	else if (s < 48 * 3600)
		shfs_buf_printf(out, "%lld h %02lld min", s / 3600, s / 60 % 60);
	else
		shfs_buf_printf(out, "%lld d %lld h", s / 86400, s / 3600 % 24);
}

unsigned shfs_wait_ms(const char *variable, unsigned usual)
{
#ifdef SHFS_ASSERTS
	const char *text = getenv(variable);

	if (text)
		return (unsigned)strtoul(text, NULL, 10);
#endif
	(void)variable;
	return usual;
}
