// Shows what the pointer is at: the call, the moment and the memory then. The page reads without it.
(() => {
  "use strict";
  const chart = document.getElementById("chart");
  const now = document.getElementById("now");
  const tip = document.getElementById("tip");
  const points = document.getElementById("held").points;
  const { left, right, seconds, top, height, bytes } = chart.dataset;

  const heldAt = (x) => {
    let low = 0;
    let high = points.numberOfItems - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points.getItem(middle).x <= x) low = middle; else high = middle;
    }
    const one = points.getItem(low);
    const other = points.getItem(high);
    const share = other.x > one.x ? (x - one.x) / (other.x - one.x) : 0;
    const y = one.y + (other.y - one.y) * Math.min(1, share);
    return bytes * (1 - (y - top) / height);
  };
  const clock = (value) => {
    const whole = Math.round(value);
    const two = (number) => String(number).padStart(2, "0");
    return value < 60
      ? `${value.toFixed(1)} s`
      : `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  };
  const said = (bar) => {
    const title = bar.querySelector("title");
    if (title) { // kept elsewhere, or the browser would show it a second time
      bar.dataset.said = title.textContent;
      title.remove();
    }
    return bar.dataset.said;
  };
  const hide = () => {
    tip.hidden = true;
    now.setAttribute("visibility", "hidden");
  };
  chart.addEventListener("pointermove", (event) => {
    const inside = new DOMPoint(event.clientX, event.clientY)
      .matrixTransform(chart.getScreenCTM().inverse());
    if (inside.x < left || inside.x > right) { hide(); return; }
    const moment = (inside.x - left) / (right - left) * seconds;
    const bar = event.target.closest(".bar");
    const held = `${clock(moment)}: ${(heldAt(inside.x) / 2 ** 30).toFixed(2)} GiB held`;
    tip.textContent = bar ? `${said(bar)}\n${held}` : held;
    tip.hidden = false;
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, room))}px`;
    tip.style.top = event.clientY + tip.offsetHeight + 24 > window.innerHeight
      ? `${event.clientY - tip.offsetHeight - 12}px`
      : `${event.clientY + 16}px`;
    now.setAttribute("x1", inside.x);
    now.setAttribute("x2", inside.x);
    now.setAttribute("visibility", "visible");
  });
  chart.addEventListener("pointerleave", hide);
})();
