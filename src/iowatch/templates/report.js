"use strict";
{
    const bodies = [...document.querySelectorAll("tbody.case")];
    const details = [...document.querySelectorAll("details.case")];
    const [filter, verdict, shown] = ["filter", "verdict", "shown"].map((id) => document.getElementById(id));
    const form = filter.form;

    const show = () => {
        const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
        let count = 0;
        for (const body of bodies) {
            const place = body.dataset.place - 1;
            const text = `${body.textContent} ${details[place].textContent}`.toLowerCase();
            const matches =
                words.every((word) => text.includes(word)) &&
                (!verdict.value || body.dataset.verdict === verdict.value);
            body.hidden = details[place].hidden = !matches;
            count += matches;
        }
        shown.textContent = `${count} of ${bodies.length} cases`;
    };
    form.hidden = false;
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    show();

    // Numbers by value, the verdict by its place in the report, the rest as text; empty ones last.
    const table = bodies[0].parentElement;
    const headings = [...table.tHead.rows[0].cells];
    const key = (body, column) => {
        if (column === 0) return Number(body.dataset.place);
        const text = body.rows[0].cells[column].textContent.trim();
        const number = Number.parseFloat(text.replace("−", "-"));
        return headings[column].classList.contains("number") ? number : text;
    };
    const compare = (a, b) => {
        if (typeof a === "string") return a.localeCompare(b, "en", { numeric: true });
        return Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) - Number.isNaN(b) : a - b;
    };
    headings.forEach((heading, column) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = heading.textContent;
        heading.replaceChildren(button);
        button.addEventListener("click", () => {
            const down = heading.getAttribute("aria-sort") === "ascending";
            for (const other of headings) other.removeAttribute("aria-sort");
            heading.setAttribute("aria-sort", down ? "descending" : "ascending");
            const known = bodies.map((body) => [key(body, column), body]);
            known.sort(([a], [b]) => {
                const order = compare(a, b);
                return down && !Number.isNaN(a) && !Number.isNaN(b) ? -order : order;
            });
            table.append(...known.map(([, body]) => body));
        });
    });

    const openTarget = () => {
        const target = document.getElementById(location.hash.slice(1));
        if (target?.matches("details")) target.open = true;
    };
    addEventListener("hashchange", openTarget);
    openTarget();
}
