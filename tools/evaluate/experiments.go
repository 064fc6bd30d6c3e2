package main

// experiments are the commands, in the order of the paper. Those of Table 3 and
// figures 5 to 8 share one filling of every structure, which fig8 empties.
var experiments = []experiment{
	{"table3", table3Title, table3},
	{"fig2", fig2Title, fig2},
	{"fig3", fig3Title, fig3},
	{"fig4", fig4Title, fig4},
	{"fig5", fig5Title, fig5},
	{"fig6", fig6Title, fig6},
	{"fig7", fig7Title, fig7},
	{"fig8", fig8Title, fig8},
	{"size", sizeTitle, size},
}
