"use strict";
{
    const bodies = [...document.querySelectorAll("tbody.case")];
    const details = new Map([...document.querySelectorAll("details.case")].map((part) => [part.id, part]));
    const folds = [...document.querySelectorAll(".fold")].filter((fold) => fold.querySelector(".case"));
    const [filter, verdict, shown] = ["filter", "verdict", "shown"].map((id) => document.getElementById(id));
    const form = filter.form;

    const show = () => {
        const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
        const isAsked = words.length > 0 || verdict.value !== "";
        let count = 0;
        for (const body of bodies) {
            const part = details.get(`case-${body.dataset.place}`);
            const text = `${body.textContent} ${part.textContent}`.toLowerCase();
            const matches =
                words.every((word) => text.includes(word)) &&
                (!verdict.value || body.dataset.verdict === verdict.value);
            body.hidden = part.hidden = !matches;
            count += matches;
        }
        for (const table of tables) table.hidden = !table.querySelector(".case:not([hidden])");
        for (const fold of folds) {
            fold.hidden = !fold.querySelector(".case:not([hidden])");
            fold.open = isAsked; // what is folded opens while it is asked for
        }
        shown.textContent = `${count} of ${bodies.length} cases`;
    };

    // Numbers by value, the verdict by its place in the report, the rest as text; empty ones last.
    const compare = (a, b) => {
        if (typeof a === "string") return a.localeCompare(b, "en", { numeric: true });
        return Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) - Number.isNaN(b) : a - b;
    };
    const sortable = (table) => {
        const headings = [...table.tHead.rows[0].cells];
        const key = (body, column) => {
            if (column === 0) return Number(body.dataset.place);
            const text = body.rows[0].cells[column].textContent.trim();
            return headings[column].classList.contains("number") ? Number.parseFloat(text) : text;
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
                const known = [...table.tBodies].map((body) => [key(body, column), body]);
                known.sort(([a], [b]) => {
                    const order = compare(a, b);
                    return down && !Number.isNaN(a) && !Number.isNaN(b) ? -order : order;
                });
                table.append(...known.map(([, body]) => body));
            });
        });
    };
    const tables = [...document.querySelectorAll(".verdicts")];
    tables.forEach(sortable);
    form.hidden = false;
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    show();

    const openTarget = () => {
        const target = document.getElementById(location.hash.slice(1));
        if (!target?.matches("details")) return;
        for (let part = target; part; part = part.parentElement.closest("details")) part.open = true;
        target.scrollIntoView();
    };
    addEventListener("hashchange", openTarget);
    openTarget();
}
