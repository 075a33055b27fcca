// A component as a widget of a notebook.
export default {
  render({ model, el }) {
    const root = document.createElement("div");
    el.append(root);
    const view = show(root, structuredClone(model.get("data")), { send: (message) => model.send(message) });
    model.on("msg:custom", (answer) => view.answer(answer));
    return () => view.stop();
  },
};
