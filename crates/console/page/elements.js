// Elements of the page. Names come from other devices: they are only ever set as text.

/** The element with this id. */
export const at = (id) => document.getElementById(id);

/** Sets a text where it differs: what is selected or read aloud is left alone. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** An element of this class with these children. */
export function make(name, kind, ...children) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  made.append(...children);
  return made;
}

/** Has `parent` contain one element for each item, in order; known ones stay the same elements. */
export function each(parent, items, key, create, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, i) => {
    const id = key(item, i);
    let child = known.get(id);
    known.delete(id);
    if (!child) {
      child = create(item);
      child.dataset.key = id;
    }
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
    update(child, item, i);
  });
  // Those that are gone, and further ones with the key of another.
  while (parent.children.length > items.length) parent.lastChild.remove();
}
