# A bar for each town: awk -f plot.awk PEAKS > FIGURE
BEGIN { print "Most cases at a time" }
{
	bar = ""
	while (length(bar) < $3 / 500)
		bar = bar "#"
	printf "%-10s day %3d %6d %s\n", $1, $2, $3, bar
}
