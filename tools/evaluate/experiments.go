package main

// experiments lists the commands in the order of the paper. Table 3 and figures 5 to 8 share
// one filling of every structure, which fig8 empties.
var experiments = []experiment{
	{"table3", table3Title, table3, table3Views},
	{"fig2", fig2Title, fig2, fig2Views},
	{"fig3", fig3Title, fig3, fig3Views},
	{"fig4", fig4Title, fig4, fig4Views},
	{"fig5", fig5Title, fig5, fig5Views},
	{"fig6", fig6Title, fig6, fig6Views},
	{"fig7", fig7Title, fig7, fig7Views},
	{"fig8", fig8Title, fig8, fig8Views},
}
