// What the page that is open looks like, as JSON for the type layout.
(async () => {
	const all = (selector) => [...document.querySelectorAll(selector)];
	const shown = (e) => e.checkVisibility();
	const style = (e) => getComputedStyle(e);
	const name = (e) => e.getAttribute('src') || e.tagName.toLowerCase() + ' ' + e.textContent.trim().slice(0, 60);
	const images = all('img');
	await Promise.all(images.map((i) => i.decode().catch(() => {})));

	const folded = all('.scroll, code').filter(shown).map(name);
	const pictures = images.map((i) => {
		const r = i.getBoundingClientRect();
		return { Name: i.getAttribute('src'), X: r.x + scrollX, Y: r.y + scrollY, Width: r.width, Height: r.height };
	});
	all('details').forEach((d) => { d.dataset.was = d.open; d.open = true; });

	const texts = all('body *').filter((e) => shown(e) && [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim()));
	const luminance = (colour) => { // as WCAG 2 defines it
		const context = new OffscreenCanvas(1, 1).getContext('2d');
		context.fillStyle = colour;
		context.fillRect(0, 0, 1, 1);
		const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const ground = luminance(style(document.body).backgroundColor);
	const contrast = (e) => {
		const l = luminance(style(e).color);
		return (Math.max(l, ground) + 0.05) / (Math.min(l, ground) + 0.05);
	};

	// None of these is inside another one.
	const blocks = all('h1, h2, header p, nav li, .answer, img, figcaption, summary, details > p, dt, dd, details li, .scroll').filter(shown);
	const overlapping = [];
	blocks.forEach((a, i) => blocks.slice(i + 1).forEach((b) => {
		const p = a.getBoundingClientRect(), q = b.getBoundingClientRect();
		if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1) {
			overlapping.push(name(a) + ' / ' + name(b));
		}
	}));
	const cutOff = (e) => e.scrollWidth > e.clientWidth + 1 && style(e).overflowX !== 'auto';
	const command = (section) => section.querySelector('code');

	const found = {
		Width: document.documentElement.clientWidth,
		ScrollWidth: document.documentElement.scrollWidth,
		Broken: images.filter((i) => !(i.naturalWidth > 0 && i.alt)).map(name),
		Small: texts.filter((e) => parseFloat(style(e).fontSize) < 14).map(name),
		Faint: texts.filter((e) => contrast(e) < 4.5).map(name),
		CutOff: blocks.filter(cutOff).map(name),
		Overlapping: overlapping,
		Hidden: matchMedia('print').matches ? [] : all('section').filter((s) => !command(s) || !shown(command(s)) || cutOff(command(s))).map((s) => s.id),
		Unfolded: folded,
		Breaks: all('figure').filter((f) => style(f).breakInside !== 'avoid').map((f) => name(f.querySelector('img'))),
		Pictures: pictures,
	};
	all('details').forEach((d) => { d.open = d.dataset.was === 'true'; });
	return JSON.stringify(found);
})()
